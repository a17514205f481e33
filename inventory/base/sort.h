/* Sorting lists that may be empty, and then NULL. */
#pragma once

#include <stdlib.h>

/* qsort, except that `items` may be NULL when `n` is 0: qsort itself wants a list even of nothing. */
static inline void rk_sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	if (n > 1)
		qsort(items, n, size, compare);
}
