#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/data.h"
#include "inventory/base/json.h"
#include "vmspec/domain_impl.h"

/* "12.8.0" or "12.8" as libvirt counts versions; a packager's suffix after the numbers is passed over. */
static bool version(const char *text, unsigned long *ret)
{
	unsigned part[3] = { 0 };
	int n = text ? sscanf(text, "%3u.%3u.%3u", &part[0], &part[1], &part[2]) : 0;

	*ret = part[0] * 1000000UL + part[1] * 1000UL + part[2];
	return n >= 2;
}

void rk_version_text(unsigned long v, char ret[32])
{
	snprintf(ret, 32, "%lu.%lu.%lu", v / 1000000, v / 1000 % 1000, v % 1000);
}

bool rk_hostcaps_declared(const struct rk_site *site, struct rk_hostcaps *ret)
{
	const struct rk_hypervisor *h = &site->hypervisor;

	/* A hypervisor that is declared is one with KVM on its own architecture: nobody writes down an emulated rack. */
	*ret = (struct rk_hostcaps){ .arch = h->arch, .page_kib = h->page_kib, .kvm = true, .iommufd = true, .vfio = true };
	return version(h->libvirt, &ret->libvirt) && version(h->qemu, &ret->qemu) && h->arch;
}

/* ---- the capability matrix ------------------------------------------------------------------------------------------------------------ */

/* Keys of vmspec/capabilities.json, as a size calls them in "optional". */
static const char *const keys[RK_ELEMENTS] = {
	[RK_EL_DRIVER_MODEL] = "driverModel", [RK_EL_CLUSTERS] = "clusters",   [RK_EL_RAS] = "ras",
	[RK_EL_ACPI_NODESET] = "acpiNodeset", [RK_EL_SMMU_BUS] = "pciBus",     [RK_EL_IOMMUFD] = "iommufd",
	[RK_EL_PCIHOLE] = "pcihole64",        [RK_EL_ACCEL] = "accel",         [RK_EL_CMDQV] = "cmdqv",
};

enum { VARIANTS_MAX = 8 };

/* Read once from the program's own data; kept for the life of the process. */
static struct {
	pthread_once_t once;
	struct rk_json *document; /* the texts are borrowed from it */
	struct {
		const char *element;
		unsigned long libvirt, qemu; /* 0: any version that racksh knows */
	} elements[RK_ELEMENTS];
	struct {
		const char *key, *element, *elsewhere, *note;
		bool never; /* no known libvirt has it */
	} variants[VARIANTS_MAX];
	size_t n_variants;
	const char *newest; /* libvirt whose elements are known */
} matrix = { .once = PTHREAD_ONCE_INIT };

static void read_elements(const struct rk_jnode *list)
{
	RK_JEACH(it, list)
		for (size_t i = 0; i < RK_ELEMENTS; i++)
			if (rk_streq(rk_jstr(rk_jget(it, "key")), keys[i])) {
				matrix.elements[i].element = rk_jstr(rk_jget(it, "element"));
				version(rk_jstr(rk_jget(it, "libvirt")), &matrix.elements[i].libvirt);
				version(rk_jstr(rk_jget(it, "qemu")), &matrix.elements[i].qemu);
			}
}

static void read_variants(const struct rk_jnode *list)
{
	RK_JEACH(it, list) {
		if (matrix.n_variants == VARIANTS_MAX)
			abort();
		matrix.variants[matrix.n_variants].key = rk_jstr(rk_jget(it, "key"));
		matrix.variants[matrix.n_variants].element = rk_jstr(rk_jget(it, "element"));
		matrix.variants[matrix.n_variants].elsewhere = rk_jstr(rk_jget(it, "elsewhere"));
		matrix.variants[matrix.n_variants].never = rk_jget(it, "libvirt") != NULL;
		matrix.variants[matrix.n_variants++].note = rk_jstr(rk_jget(it, "note"));
	}
}

static void read_matrix(void)
{
	for (const struct rk_data *d = rk_data_files; d->path; d++)
		if (rk_streq(d->path, "vmspec/capabilities.json") && rk_json_parse(d->path, d->text, d->len, &matrix.document, NULL))
			abort();
	const struct rk_jnode *root = rk_json_root(matrix.document);
	matrix.newest = rk_jstr(rk_jget(rk_jget(root, "known"), "libvirt"));
	read_elements(rk_jget(root, "elements"));
	read_variants(rk_jget(root, "variants"));
	for (size_t i = 0; i < RK_ELEMENTS; i++)
		if (!matrix.elements[i].element)
			abort();
}

/* ---- a size against a host ------------------------------------------------------------------------------------------------------------ */

static bool is_optional(const struct rk_size *size, const char *key)
{
	for (size_t i = 0; i < size->n_optional; i++)
		if (rk_streq(size->optional[i], key))
			return true;
	return false;
}

void rk_size_needs(const struct rk_size *size, unsigned long *ret_libvirt, unsigned long *ret_qemu)
{
	pthread_once(&matrix.once, read_matrix);
	*ret_libvirt = *ret_qemu = 0;
	for (size_t i = 0; i < RK_ELEMENTS && size->passthrough; i++) {
		if (is_optional(size, keys[i]))
			continue;
		if (matrix.elements[i].libvirt > *ret_libvirt)
			*ret_libvirt = matrix.elements[i].libvirt;
		if (matrix.elements[i].qemu > *ret_qemu)
			*ret_qemu = matrix.elements[i].qemu;
	}
}

/* "E needs libvirt A and QEMU B": of both only what is too old. */
static void lacks(struct rk_str *lines, size_t element, const struct rk_hostcaps *caps)
{
	const struct {
		const char *program;
		unsigned long needed, found;
	} rows[] = { { "libvirt", matrix.elements[element].libvirt, caps->libvirt }, { "QEMU", matrix.elements[element].qemu, caps->qemu } };
	const char *before = " needs";
	char text[32];

	rk_str_addf(lines, "%s%s", lines->len ? "; " : "", matrix.elements[element].element);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (rows[i].found >= rows[i].needed)
			continue;
		rk_version_text(rows[i].needed, text);
		rk_str_addf(lines, "%s %s %s", before, rows[i].program, text);
		before = " and";
	}
}

/* What no known libvirt can express is refused by name, not by a version. */
static int refuse_variant(const struct rk_hostcaps *caps, const struct rk_size *size, size_t variant, struct rk_err *err)
{
	const char *elsewhere = matrix.variants[variant].elsewhere;
	char found[32];

	rk_version_text(caps->libvirt, found);
	rk_err_set(err, RK_INVALID, "size \"%s\" wants %s, which no libvirt up to %s can express%s%s (found %s)", size->name, matrix.variants[variant].element,
		   matrix.newest, elsewhere ? ", only " : "", elsewhere ? elsewhere : "", found);
	rk_err_hint(err, "%s", matrix.variants[variant].note);
	return RK_INVALID;
}

int rk_hostcaps_check_variant(const struct rk_hostcaps *caps, const struct rk_size *size, struct rk_err *err)
{
	struct rk_str known RK_CLEANUP_STR = RK_STR_INIT;

	if (!size->variant)
		return 0;
	pthread_once(&matrix.once, read_matrix);
	for (size_t i = 0; i < matrix.n_variants; i++) {
		if (rk_streq(matrix.variants[i].key, size->variant) && matrix.variants[i].never)
			return refuse_variant(caps, size, i, err);
		if (rk_streq(matrix.variants[i].key, size->variant))
			return size->passthrough ? 0 : rk_err_set(err, RK_INVALID, "size \"%s\" wants %s and passes nothing through", size->name,
								  matrix.variants[i].element);
		rk_str_addf(&known, "%s%s", i ? ", " : "", matrix.variants[i].key);
	}
	return rk_err_set(err, RK_INVALID, "size \"%s\" is of the unknown variant \"%s\" (known: %s)", size->name, size->variant, rk_str_text(&known));
}

static int refuse(const struct rk_hostcaps *caps, const struct rk_size *size, const char *missing, struct rk_err *err)
{
	unsigned long libvirt, qemu;
	char a[32], b[32], c[32];

	rk_version_text(caps->libvirt, a);
	rk_version_text(caps->qemu, b);
	rk_err_set(err, RK_INVALID, "libvirt %s with QEMU %s cannot express size \"%s\": %s", a, b, size->name, missing);
	rk_size_needs(size, &libvirt, &qemu);
	rk_version_text(libvirt, a);
	rk_version_text(qemu, b);
	rk_version_text(caps->client, c);
	bool is_daemon = caps->client && caps->libvirt < libvirt; /* not to be looked for in the library, which has a version of its own */
	rk_err_hint(err, "the size needs libvirt %s and QEMU %s or later on the tray, and a kernel with iommufd%s%s%s", a, b,
		    is_daemon ? "; libvirt means the tray's daemon: the client library here, " : "", is_daemon ? c : "",
		    is_daemon ? ", hands the domain on as it is" : "");
	return RK_INVALID;
}

int rk_hostcaps_check(const struct rk_hostcaps *caps, const struct rk_size *size, bool have[RK_ELEMENTS], struct rk_err *err)
{
	struct rk_str missing RK_CLEANUP_STR = RK_STR_INIT;

	pthread_once(&matrix.once, read_matrix);
	for (size_t i = 0; i < RK_ELEMENTS; i++) {
		have[i] = caps->libvirt >= matrix.elements[i].libvirt && caps->qemu >= matrix.elements[i].qemu;
		if (!have[i] && !is_optional(size, keys[i]))
			lacks(&missing, i, caps);
	}
	if (caps->probed && !(caps->vfio && caps->iommufd))
		rk_str_addf(&missing, "%s%s needs a host kernel that offers it (IOMMU groups, /dev/vfio/vfio, /dev/iommu), found none", missing.len ? "; " : "",
			    caps->vfio ? "<iommufd enabled>" : "<hostdev>");
	return missing.len ? refuse(caps, size, rk_str_text(&missing), err) : 0;
}
