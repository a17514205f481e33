#include "vmspec/domain_impl.h"

/* A GPU is near one Grace and one HCA port. A size that would leave a Grace with more of one than of the other, or its neighbour with other
 * numbers than itself, has no performance anybody could promise. */
static int check_halves(const struct rk_size *size, const struct rk_shape *s, struct rk_err *err)
{
	int gpus[RK_SOCKETS_MAX] = { 0 }, hcas[RK_SOCKETS_MAX] = { 0 };

	for (size_t i = 0; i < s->n_passed; i++) {
		gpus[s->passed[i].node] += s->passed[i].kind == 'g';
		hcas[s->passed[i].node] += s->passed[i].kind == 'h';
	}
	for (int i = 0; i < s->cells; i++) {
		if (gpus[i] != gpus[0])
			return rk_err_set(err, RK_INVALID, "size \"%s\" takes %d GPUs of socket 0 and %d of socket %d: whole sockets or parts of one only",
					  size->name, gpus[0], gpus[i], i);
		if (hcas[i] != gpus[i] && size->hcas)
			return rk_err_set(err, RK_INVALID, "size \"%s\" takes %d GPUs and %d HCA ports of socket %d: each GPU needs the port beside it",
					  size->name, gpus[i], hcas[i], i);
	}
	return 0;
}

/* The largest huge pages that the host has: a kernel with 64 KiB pages has none of 1 GiB. */
static int page_of(struct rk_domain *d, struct rk_shape *s, struct rk_err *err)
{
	const char *tray = d->in->site->trays[d->in->tray].name;
	const struct rk_hostcaps *caps = d->caps;
	static const uint64_t sizes[] = { 1048576, 524288, 2048 };

	s->page_kib = caps->page_kib == 4 ? 1048576 : 524288;
	if (caps->page_kib != 4 && caps->page_kib != 64 && d->notes)
		rk_str_addf(d->notes, "tray %s: the page size of the host is not known, 64 KiB is assumed\n", tray);
	if (!caps->n_pages)
		return 0;
	for (size_t i = 0; i < RK_ARRAY_SIZE(sizes); i++)
		for (size_t k = 0; k < caps->n_pages; k++)
			if (caps->pages[k].kib == sizes[i] && caps->pages[k].count) {
				s->page_kib = sizes[i];
				return 0;
			}
	rk_err_set(err, RK_INVALID, "tray %s has no huge pages, size \"%s\" needs %llu of %llu MiB on each of %d nodes", tray, d->in->size->name,
		   (unsigned long long)(s->cell_kib / s->page_kib), (unsigned long long)s->page_kib / 1024, s->cells);
	rk_err_hint(err, "boot the host with hugepagesz=%lluM hugepages=N", (unsigned long long)s->page_kib / 1024);
	return RK_INVALID;
}

static int check_pages(struct rk_domain *d, const struct rk_shape *s, struct rk_err *err)
{
	const char *tray = d->in->site->trays[d->in->tray].name;
	unsigned long long needs = s->cell_kib / s->page_kib, mib = s->page_kib / 1024;

	if (s->cell_kib % s->page_kib)
		return rk_err_set(err, RK_INVALID, "memory of size \"%s\" is no multiple of %d huge pages of %llu MiB", d->in->size->name, s->cells, mib);
	for (int node = 0; node < s->cells && d->caps->n_pages; node++) {
		unsigned long long has = 0;
		for (size_t k = 0; k < d->caps->n_pages; k++)
			if (d->caps->pages[k].node == node && d->caps->pages[k].kib == s->page_kib)
				has = d->caps->pages[k].count;
		if (has >= needs)
			continue;
		rk_err_set(err, RK_INVALID, "tray %s has %llu huge pages of %llu MiB on node %d, size \"%s\" needs %llu (%llu MiB / %llu MiB)", tray, has, mib,
			   node, d->in->size->name, needs, (unsigned long long)s->cell_kib / 1024, mib);
		rk_err_hint(err, "echo %llu > /sys/devices/system/node/node%d/hugepages/hugepages-%llukB/nr_hugepages, best at boot", needs, node,
			    (unsigned long long)s->page_kib);
		return RK_INVALID;
	}
	return 0;
}

static void place_cells(struct rk_shape *s)
{
	s->cells = 1;
	for (size_t i = 0; i < s->n_passed; i++) {
		if (s->passed[i].node >= s->cells)
			s->cells = s->passed[i].node + 1;
		if (s->passed[i].kind == 'g')
			s->gpu_cell[s->passed[i].index] = s->passed[i].node;
	}
}

int rk_domain_shape(struct rk_domain *d, struct rk_shape *s, struct rk_err *err)
{
	const struct rk_site *site = d->in->site;
	const struct rk_size *size = d->in->size;
	const struct rk_profile *profile = &site->profiles[site->racks[site->trays[d->in->tray].rack].profile];
	int rc = rk_domain_passed(d, s->passed, &s->n_passed, err);

	if (rc)
		return rc;
	place_cells(s);
	if (s->cells > profile->sockets || s->cells > RK_SOCKETS_MAX)
		return rk_err_set(err, RK_INVALID, "size \"%s\" wants devices of socket %d, a tray has %d", size->name, s->cells - 1, profile->sockets);
	s->gpus = size->gpus;
	s->vcpus = size->vcpus / s->cells;
	s->host_cpus = profile->cpus_per_tray / profile->sockets;
	s->cell_kib = size->memory_mib * 1024 / (uint64_t)s->cells;
	s->hole_kib = size->hole_kib;
	if (!s->hole_kib || (s->hole_kib & (s->hole_kib - 1)))
		return rk_err_set(err, RK_INVALID, "pciHole64Kib of size \"%s\" is no power of two", size->name);
	rc = check_halves(size, s, err);
	if (!rc && (size->vcpus % s->cells || s->vcpus < 1 || s->vcpus > s->host_cpus - RK_RESERVED_CORES))
		rc = rk_err_set(err, RK_INVALID, "size \"%s\" wants %d vCPUs on %d sockets of %d cores, %d of each kept for the host", size->name, size->vcpus,
				s->cells, s->host_cpus, RK_RESERVED_CORES);
	if (!rc)
		rc = page_of(d, s, err);
	return rc ? rc : check_pages(d, s, err);
}
