#include "inventory/base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *checked(void *p)
{
	if (!p) {
		fputs("racksh: out of memory\n", stderr);
		abort();
	}
	return p;
}

void rk_cleanup_free(void *pointer_to_pointer)
{
	free(*(void **)pointer_to_pointer);
}

void rk_cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

void *rk_xmalloc(size_t size)
{
	return checked(malloc(size ? size : 1));
}

void *rk_xcalloc(size_t n, size_t size)
{
	return checked(calloc(n ? n : 1, size ? size : 1));
}

void *rk_xreallocarray(void *old, size_t n, size_t size)
{
	return checked(reallocarray(old, n ? n : 1, size ? size : 1));
}

char *rk_xstrdup(const char *s)
{
	return checked(strdup(s));
}

char *rk_xstrndup(const char *s, size_t n)
{
	return checked(strndup(s, n));
}

char *rk_xvasprintf(const char *format, va_list ap)
{
	char *out = NULL;

	if (vasprintf(&out, format, ap) < 0)
		out = NULL;
	return checked(out);
}

char *rk_xasprintf(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *out = rk_xvasprintf(format, ap);
	va_end(ap);
	return out;
}

enum { CHUNK_MIN = 1024, CHUNK_MAX = 1024 * 1024 };

struct chunk {
	struct chunk *next;
	size_t used, size;
	max_align_t data[];
};

struct rk_arena {
	struct chunk *head;
	size_t bytes;
};

struct rk_arena *rk_arena_new(void)
{
	return rk_xcalloc(1, sizeof(struct rk_arena));
}

void rk_arena_free(struct rk_arena *arena)
{
	if (!arena)
		return;
	for (struct chunk *c = arena->head, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(arena);
}

void rk_cleanup_arena(struct rk_arena **arena)
{
	rk_arena_free(*arena);
}

static struct chunk *chunk_for(struct rk_arena *arena, size_t size)
{
	size_t want = arena->head ? arena->head->size * 2 : CHUNK_MIN;

	if (want > CHUNK_MAX)
		want = CHUNK_MAX;
	if (want < size)
		want = size;
	struct chunk *c = rk_xmalloc(sizeof(*c) + want);
	*c = (struct chunk){ .next = arena->head, .size = want };
	arena->head = c;
	arena->bytes += sizeof(*c) + want;
	return c;
}

void *rk_arena_alloc(struct rk_arena *arena, size_t size)
{
	const size_t align = _Alignof(max_align_t);

	if (size > SIZE_MAX / 2)
		checked(NULL);
	size = (size + align - 1) / align * align;
	struct chunk *c = arena->head;
	if (!c || c->size - c->used < size)
		c = chunk_for(arena, size);
	void *p = (char *)c->data + c->used;
	c->used += size;
	return memset(p, 0, size);
}

void *rk_arena_array(struct rk_arena *arena, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		checked(NULL);
	return rk_arena_alloc(arena, bytes);
}

char *rk_arena_strndup(struct rk_arena *arena, const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = rk_arena_alloc(arena, len + 1);

	memcpy(copy, s, len);
	return copy;
}

char *rk_arena_strdup(struct rk_arena *arena, const char *s)
{
	return s ? rk_arena_strndup(arena, s, strlen(s)) : NULL;
}

char *rk_arena_printf(struct rk_arena *arena, const char *format, ...)
{
	va_list ap, again;

	va_start(ap, format);
	va_copy(again, ap);
	int len = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (len < 0)
		checked(NULL);
	char *out = rk_arena_alloc(arena, (size_t)len + 1);
	vsnprintf(out, (size_t)len + 1, format, again);
	va_end(again);
	return out;
}

void rk_arena_adopt(struct rk_arena *arena, struct rk_arena *other)
{
	struct chunk *last = other->head;

	while (last && last->next)
		last = last->next;
	/* Behind the head: that is where the next allocation goes. */
	if (last && arena->head) {
		last->next = arena->head->next;
		arena->head->next = other->head;
	} else if (last) {
		arena->head = other->head;
	}
	arena->bytes += other->bytes;
	free(other);
}

size_t rk_arena_bytes(const struct rk_arena *arena)
{
	return arena->bytes;
}
