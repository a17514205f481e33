#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/data.h"
#include "inventory/base/json.h"
#include "vmspec/vmspec.h"

/* Sizes of one text: a built-in file (one object) or a site's list. Read once per text and kept for the life of the process, so that a size
 * may be borrowed for ever; a process meets few site files. */
struct source {
	char *text;              /* NULL: the built-in files */
	struct rk_json **documents; size_t n_documents; /* the sizes borrow their texts */
	struct rk_size *sizes;
	size_t n;
};

static struct {
	pthread_mutex_t lock;
	struct {
		struct source **items;
		size_t n, cap;
	} sources;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int whole(const struct rk_jnode *root, const char *key)
{
	uint64_t v = 0;

	rk_ju64(rk_jget(root, key), &v);
	return (int)v;
}

static const char **texts(const struct rk_jnode *list, size_t *ret_n)
{
	const char **out = rk_xcalloc(list ? list->n : 1, sizeof(*out));

	RK_JEACH(it, list)
		if (rk_jstr(it))
			out[(*ret_n)++] = it->text;
	return out;
}

static void read_size(const struct rk_jnode *root, struct rk_size *size)
{
	*size = (struct rk_size){
		.name = rk_jstr(rk_jget(root, "name")),
		.description = rk_jstr(rk_jget(root, "description")),
		.profile = rk_jstr(rk_jget(root, "profile")),
		.source = rk_jstr(rk_jget(root, "source")),
		.vcpus = whole(root, "vcpus"),
		.gpus = whole(root, "gpus"),
		.hcas = whole(root, "hcas"),
		.nvme = whole(root, "nvme"),
		.capacity_multiple = whole(root, "capacityMultiple"),
		.vms_per_domain = whole(root, "vmsPerDomain"),
		.variant = rk_jstr(rk_jget(root, "variant")),
	};
	rk_ju64(rk_jget(root, "memoryMib"), &size->memory_mib);
	rk_ju64(rk_jget(root, "pciHole64Kib"), &size->hole_kib);
	rk_jbool(rk_jget(root, "passthrough"), &size->passthrough);
	rk_jbool(rk_jget(root, "emulated"), &size->emulated);
	rk_jdouble(rk_jget(root, "trayKw"), &size->tray_kw);
	size->aliases = texts(rk_jget(root, "aliases"), &size->n_aliases);
	size->not_supported = texts(rk_jget(root, "notSupported"), &size->n_not_supported);
	size->optional = texts(rk_jget(root, "optional"), &size->n_optional);
}

static void read_builtin(struct source *s)
{
	size_t n = 0;

	for (const struct rk_data *d = rk_data_files; d->path; d++)
		n += rk_starts_with(d->path, "vmspec/sizes/");
	s->sizes = rk_xcalloc(n, sizeof(*s->sizes));
	s->documents = rk_xcalloc(n, sizeof(*s->documents));
	for (const struct rk_data *d = rk_data_files; d->path; d++) {
		if (!rk_starts_with(d->path, "vmspec/sizes/"))
			continue;
		if (rk_json_parse(d->path, d->text, d->len, &s->documents[s->n_documents], NULL))
			abort();
		read_size(rk_json_root(s->documents[s->n_documents++]), &s->sizes[s->n++]);
	}
}

/* The list was checked when the site file was read; what is no size is passed over. */
static void read_site(struct source *s)
{
	s->documents = rk_xcalloc(1, sizeof(*s->documents));
	if (rk_json_parse("sizes", s->text, strlen(s->text), &s->documents[0], NULL))
		return;
	s->n_documents = 1;
	const struct rk_jnode *list = rk_json_root(s->documents[0]);
	s->sizes = rk_xcalloc(list->n ? list->n : 1, sizeof(*s->sizes));
	RK_JEACH(it, list)
		if (rk_jstr(rk_jget(it, "name")))
			read_size(it, &s->sizes[s->n++]);
}

static const struct source *source_of(const char *text)
{
	struct source *s = NULL;

	pthread_mutex_lock(&table.lock);
	for (size_t i = 0; i < table.sources.n && !s; i++)
		if (rk_streq(table.sources.items[i]->text, text))
			s = table.sources.items[i];
	if (!s) {
		s = *rk_vec_push(&table.sources) = rk_xcalloc(1, sizeof(*s));
		s->text = text ? rk_xstrdup(text) : NULL;
		if (text)
			read_site(s);
		else
			read_builtin(s);
	}
	pthread_mutex_unlock(&table.lock);
	return s;
}

static const struct rk_size *find_in(const struct source *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcasecmp(s->sizes[i].name, name) == 0)
			return &s->sizes[i];
		for (size_t a = 0; a < s->sizes[i].n_aliases; a++)
			if (strcasecmp(s->sizes[i].aliases[a], name) == 0)
				return &s->sizes[i];
	}
	return NULL;
}

const struct rk_size *rk_size_find(const struct rk_site *site, const char *name)
{
	const struct rk_size *size = find_in(source_of(NULL), name);

	return size || !site || !site->sizes ? size : find_in(source_of(site->sizes), name);
}

const struct rk_size **rk_sizes(const struct rk_site *site, struct rk_arena *arena, size_t *ret_n)
{
	const struct source *sources[] = { source_of(NULL), site && site->sizes ? source_of(site->sizes) : NULL };
	const struct rk_size **out = rk_arena_array(arena, sources[0]->n + (sources[1] ? sources[1]->n : 0), sizeof(*out));

	*ret_n = 0;
	for (size_t i = 0; i < RK_ARRAY_SIZE(sources) && sources[i]; i++)
		for (size_t k = 0; k < sources[i]->n; k++)
			out[(*ret_n)++] = &sources[i]->sizes[k];
	return out;
}
