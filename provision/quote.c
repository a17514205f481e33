#include <string.h>

#include "provision/ssh.h"

/* Bytes that no POSIX shell gives a meaning to, wherever in a word they stand. */
static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+:,./-";

void rk_shell_quote(struct rk_str *out, const char *arg)
{
	if (*arg && strspn(arg, plain) == strlen(arg)) {
		rk_str_add(out, arg);
		return;
	}
	rk_str_addc(out, '\'');
	for (const char *p = arg; *p; p++) {
		if (*p == '\'')
			rk_str_add(out, "'\\''");
		else
			rk_str_addc(out, *p);
	}
	rk_str_addc(out, '\'');
}
