# The net file of `racks` racks for ibsim. Formulas: leaf group g = int((r-1)/4), leaf 4g + rail, down port 18 ((r-1) mod 4) + tray;
# spines and links per leaf-spine pair so that no uplink stays unused.

function header(guid_key, guid, device, image) {
	printf "vendid=0x2c9\ndevid=%s\n%s=%s\nsysimgguid=%s\n", device, guid_key, guid, image
}

function node_guid(r, t, h) { return sprintf("0x5000e603%04x%02x%02x", r, t, h * 16) }

function hca_id(r, t, h) { return sprintf("r%02dt%02dh%d", r, t, h) }

function shape(    need) {
	leaves = 4 * int((racks + 3) / 4)
	if (racks <= 4) {
		spines = 2
		links = int(trays * racks / 2)
		return
	}
	need = leaves / 2
	for (spines = 1; spines < need || 72 % spines; spines++)
		;
	links = 72 / spines
}

function hcas(    r, t, h) {
	for (r = 1; r <= racks; r++)
		for (t = 1; t <= trays; t++)
			for (h = 0; h < 4; h++) {
				header("caguid", node_guid(r, t, h), "0x1023", node_guid(r, t, 0))
				printf "Ca\t1 \"%s\"\t\t# \"rack%02d-tray%02d mlx5_%d\"\n", hca_id(r, t, h), r, t, h
				printf "[1]\t\"leaf%03d\"[%d]\n\n", 4 * int((r - 1) / 4) + h, ((r - 1) % 4) * trays + t
			}
}

function leaf(l,    r, t, s, k) {
	header("switchguid", sprintf("0x5000e604000a%04x", l), "0xd2f4", sprintf("0x5000e604000a%04x", l))
	printf "Switch\t144 \"leaf%03d\"\t\t# \"leaf-g%02d-rail%d\" enhanced port 0\n", l, int(l / 4), l % 4
	for (r = 4 * int(l / 4) + 1; r <= racks && r <= 4 * int(l / 4) + 4; r++)
		for (t = 1; t <= trays; t++)
			printf "[%d]\t\"%s\"[1]\n", ((r - 1) % 4) * trays + t, hca_id(r, t, l % 4)
	for (s = 0; s < spines; s++)
		for (k = 0; k < links; k++)
			printf "[%d]\t\"spine%02d\"[%d]\n", 72 + s * links + k + 1, s, l * links + k + 1
	print ""
}

function spine(s,    l, k) {
	header("switchguid", sprintf("0x5000e604000b%04x", s), "0xd2f4", sprintf("0x5000e604000b%04x", s))
	printf "Switch\t144 \"spine%02d\"\t\t# \"spine%02d\" enhanced port 0\n", s, s
	for (l = 0; l < leaves; l++)
		for (k = 0; k < links; k++)
			printf "[%d]\t\"leaf%03d\"[%d]\n", l * links + k + 1, l, 72 + s * links + k + 1
	print ""
}

BEGIN {
	shape()
	print "width=2\nspeed=7\nextspeed=7\n"
	hcas()
	for (l = 0; l < leaves; l++)
		leaf(l)
	for (s = 0; s < spines; s++)
		spine(s)
}
