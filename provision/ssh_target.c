#include <string.h>

#include "provision/ssh.h"

static bool charset(const char *s, const char *more)
{
	for (; *s; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr(more, *s)))
			return false;
	return true;
}

static int bad(const char *text, const char *what, struct rk_err *err)
{
	rk_err_set(err, RK_INVALID, "ssh target \"%s\": %s", text, what);
	rk_err_hint(err, "write it as user@host:port; user and port may be left out, an IPv6 address stands in []");
	return RK_INVALID;
}

/* Splits "host", "host:port", "[v6]", "[v6]:port" in place. */
static const char *split_port(char *host, char **ret_port)
{
	char *colon = *host == '[' ? strchr(host, ']') : host;

	*ret_port = NULL;
	if (!colon)
		return NULL;
	if (*host == '[') {
		*colon++ = '\0';
		host++;
		if (*colon && *colon != ':')
			return NULL;
	} else {
		colon = strchr(colon, ':');
	}
	if (colon && *colon) {
		*colon = '\0';
		*ret_port = colon + 1;
	}
	return host;
}

int rk_ssh_parse(const char *text, struct rk_arena *arena, struct rk_ssh_target *target, struct rk_err *err)
{
	char *copy = rk_arena_strdup(arena, text), *at = strrchr(copy, '@'), *port_text;
	const char *user = NULL;
	uint64_t port = 0;

	if (at) {
		*at = '\0';
		user = copy;
		if (!*user || *user == '-' || !charset(user, "._-"))
			return bad(text, "the user name is not valid", err);
		copy = at + 1;
	}
	const char *host = split_port(copy, &port_text);
	/* A leading '-' could be taken for an option by whatever the name is handed to. */
	if (!host || !*host || *host == '-' || !charset(host, "._-:%"))
		return bad(text, "the host name is not valid", err);
	if (port_text && (!rk_parse_u64(port_text, &port) || port < 1 || port > 65535))
		return bad(text, "the port is not a number of 1 to 65535", err);
	target->host = host;
	if (port)
		target->port = (int)port;
	if (user)
		target->user = user;
	return 0;
}

const char *rk_ssh_host(const char *text, struct rk_arena *arena)
{
	struct rk_ssh_target target = { 0 };

	return rk_ssh_parse(text, arena, &target, NULL) ? rk_arena_strdup(arena, text) : target.host;
}
