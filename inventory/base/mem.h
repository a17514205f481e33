/* Memory: two lifetimes.
 *
 * Data of a command lives in an arena (struct rk_arena) that dies with the command; handles are owned through the cleanup
 * attribute. Running out of memory aborts: the journal must survive sudden death anyway, so no caller checks for NULL. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#define RK_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define RK_CLEANUP(fn) __attribute__((cleanup(fn)))
#define RK_CLEANUP_FREE __attribute__((cleanup(rk_cleanup_free)))
#define RK_CLEANUP_FD __attribute__((cleanup(rk_cleanup_fd)))
/* Ownership transfer out of a cleanup variable. */
#define rk_steal(pointer)                          \
	({                                         \
		__typeof__(*(pointer)) *p_ = (pointer);   \
		__typeof__(*(pointer)) v_ = *p_;          \
		*p_ = (__typeof__(v_))0;                \
		v_;                                \
	})

void rk_cleanup_free(void *pointer_to_pointer);
void rk_cleanup_fd(int *fd);

/* malloc family that never returns NULL. Results are freed with free(). */
void *rk_xmalloc(size_t size);
void *rk_xcalloc(size_t n, size_t size);
void *rk_xreallocarray(void *old, size_t n, size_t size);
char *rk_xstrdup(const char *s);
char *rk_xstrndup(const char *s, size_t n);
char *rk_xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *rk_xvasprintf(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));

/* Arena: many small allocations, one free. Memory is zeroed and aligned for any type. Not thread safe: one per thread. */
struct rk_arena;
struct rk_arena *rk_arena_new(void);
void rk_arena_free(struct rk_arena *arena);
void rk_cleanup_arena(struct rk_arena **arena);
#define RK_CLEANUP_ARENA __attribute__((cleanup(rk_cleanup_arena)))
void *rk_arena_alloc(struct rk_arena *arena, size_t size);
void *rk_arena_array(struct rk_arena *arena, size_t n, size_t size); /* overflow checked */
char *rk_arena_strdup(struct rk_arena *arena, const char *s);        /* NULL gives NULL */
char *rk_arena_strndup(struct rk_arena *arena, const char *s, size_t n);
char *rk_arena_printf(struct rk_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What `other` holds belongs to `arena` from now on; `other` itself is gone. For work that several threads did, each in its own arena. */
void rk_arena_adopt(struct rk_arena *arena, struct rk_arena *other);
/* Bytes taken from malloc by the arena. */
size_t rk_arena_bytes(const struct rk_arena *arena);

/* Appends room for one element to a malloc'ed growing array {T *items; size_t n, cap;}; returns the zeroed element. */
#define rk_vec_push(vec)                                                                                  \
	({                                                                                                \
		__typeof__(vec) vec_ = (vec);                                                             \
		if (vec_->n == vec_->cap) {                                                               \
			vec_->cap = vec_->cap ? vec_->cap * 2 : 8;                                        \
			vec_->items = rk_xreallocarray(vec_->items, vec_->cap, sizeof(*vec_->items));     \
		}                                                                                         \
		__builtin_memset(&vec_->items[vec_->n], 0, sizeof(*vec_->items));                         \
		&vec_->items[vec_->n++];                                                                  \
	})
