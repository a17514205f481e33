#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/data.h"
#include "inventory/base/json.h"
#include "vmspec/vmspec.h"

/* The built-in sizes, read once from the program's own data; kept for the life of the process. */
static struct {
	pthread_once_t once;
	struct rk_size *sizes;
	struct rk_json **documents; /* the sizes borrow their texts */
	size_t n;
} table = { .once = PTHREAD_ONCE_INIT };

static int whole(const struct rk_jnode *root, const char *key)
{
	uint64_t v = 0;

	rk_ju64(rk_jget(root, key), &v);
	return (int)v;
}

static void read_size(const struct rk_data *data, struct rk_json **ret_document, struct rk_size *size)
{
	if (rk_json_parse(data->path, data->text, data->len, ret_document, NULL))
		abort();
	const struct rk_jnode *root = rk_json_root(*ret_document), *aliases = rk_jget(root, "aliases");
	*size = (struct rk_size){
		.name = rk_jstr(rk_jget(root, "name")),
		.aliases = rk_xcalloc(aliases->n, sizeof(char *)),
		.description = rk_jstr(rk_jget(root, "description")),
		.vcpus = whole(root, "vcpus"),
		.gpus = whole(root, "gpus"),
		.hcas = whole(root, "hcas"),
		.nvme = whole(root, "nvme"),
		.memory_mib = (uint64_t)whole(root, "memoryMib"),
		.capacity_multiple = whole(root, "capacityMultiple"),
		.vms_per_domain = whole(root, "vmsPerDomain"),
		.json = data->text,
	};
	rk_jbool(rk_jget(root, "passthrough"), &size->passthrough);
	rk_jbool(rk_jget(root, "emulated"), &size->emulated);
	rk_jdouble(rk_jget(root, "trayKw"), &size->tray_kw);
	RK_JEACH(it, aliases)
		size->aliases[size->n_aliases++] = rk_jstr(it);
}

static bool is_size(const struct rk_data *data)
{
	return rk_starts_with(data->path, "vmspec/sizes/");
}

static void read_all(void)
{
	size_t n = 0;

	for (const struct rk_data *d = rk_data_files; d->path; d++)
		n += is_size(d);
	table.sizes = rk_xcalloc(n, sizeof(*table.sizes));
	table.documents = rk_xcalloc(n, sizeof(struct rk_json *));
	for (const struct rk_data *d = rk_data_files; d->path; d++) {
		if (!is_size(d))
			continue;
		read_size(d, &table.documents[table.n], &table.sizes[table.n]);
		table.n++;
	}
}

const struct rk_size *rk_sizes(size_t *ret_n)
{
	pthread_once(&table.once, read_all);
	*ret_n = table.n;
	return table.sizes;
}

const struct rk_size *rk_size_find(const char *name)
{
	size_t n;
	const struct rk_size *sizes = rk_sizes(&n);

	for (size_t i = 0; i < n; i++) {
		if (strcasecmp(sizes[i].name, name) == 0)
			return &sizes[i];
		for (size_t a = 0; a < sizes[i].n_aliases; a++)
			if (strcasecmp(sizes[i].aliases[a], name) == 0)
				return &sizes[i];
	}
	return NULL;
}
