# Plugs cables of an ibsim net file elsewhere. `edits` holds one word list per edit, separated by ";"; an end is NODE:PORT.
#   cut A            the cable at A is gone              swap A B     the cables at A and B change places at their far ends
#   move A B         the cable at A goes to B (which is freed) instead
#   rate A OPTIONS   options of ibsim for the cable at A: w= width, s= speed, es= extended speed
#   guid NODE G      the node says it is G              add NODE G TEXT B   one more HCA of one port, at B (which is freed)

function fail(text) { print "rewire: " text >"/dev/stderr"; failed = 1; exit 1 }

function free(end) {
	if (end in peer) {
		delete peer[peer[end]]
		delete peer[end]
	}
}

function plug(a, b) {
	free(a)
	free(b)
	peer[a] = b
	peer[b] = a
}

function swap(a, b,    far) {
	if (!(a in peer) || !(b in peer))
		fail("no cable at " a " or " b)
	far = peer[a]
	plug(a, peer[b])
	plug(b, far)
}

function add(node, guid, text, at) {
	n++
	name[n] = node
	head[n] = sprintf("vendid=0x2c9\ndevid=0x1023\ncaguid=%s\nsysimgguid=%s\nCa\t1 \"%s\"\t\t# \"%s\"\n", guid, guid, node, text)
	ports[n] = 1
	plug(node ":1", at)
}

function edit(words,    w, i) {
	if (split(words, w, " ") == 0)
		return
	if (w[1] == "cut")
		free(w[2])
	else if (w[1] == "swap")
		swap(w[2], w[3])
	else if (w[1] == "move")
		plug(w[2], w[3])
	else if (w[1] == "rate")
		options[w[2]] = options[peer[w[2]]] = " " w[3]
	else if (w[1] == "guid")
		guid[w[2]] = w[3]
	else if (w[1] == "add")
		add(w[2], w[3], w[4] " " w[5], w[6])
	else
		fail("no such edit: " w[1])
}

# Attribute lines come before the node that they are of.
/^\[/ {
	split($0, part, /[][\t"]+/)
	peer[name[n] ":" part[2]] = part[3] ":" part[4]
	next
}

/^(Ca|Switch)\t/ {
	split($0, part, "\"")
	name[++n] = part[2]
	ports[n] = $2
	head[n] = waiting $0 "\n"
	waiting = ""
	next
}

n == 0 && /^(width|speed|extspeed)=/ { print; next }

/./ { waiting = waiting $0 "\n" }

function print_node(i,    p, end, far) {
	if (name[i] in guid)
		sub(/(ca|switch)guid=[^\n]*/, "caguid=" guid[name[i]], head[i])
	printf "\n%s", head[i]
	for (p = 1; p <= ports[i]; p++) {
		end = name[i] ":" p
		if (end in peer) {
			split(peer[end], far, ":")
			printf "[%d]\t\"%s\"[%s]%s\n", p, far[1], far[2], options[end]
		}
	}
}

END {
	if (failed)
		exit 1
	count = split(edits, list, ";")
	for (i = 1; i <= count; i++)
		edit(list[i])
	for (i = 1; i <= n; i++)
		print_node(i)
}
