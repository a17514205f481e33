#include "provision/rest_secrets.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/base/mem.h"
#include "provision/rest.h"

enum { CREDENTIALS_MAX = 16 << 10 };

void rk_wipe(char **secret)
{
	if (*secret)
		explicit_bzero(*secret, strlen(*secret));
	free(*secret);
	*secret = NULL;
}

void rk_credentials_wipe(struct rk_credentials *credentials)
{
	rk_wipe(&credentials->user);
	rk_wipe(&credentials->password);
	rk_wipe(&credentials->token);
}

/* Its mode and owner are part of the promise that nobody else reads it. */
static int read_secret_file(const char *path, char *buf, size_t max, struct rk_err *err)
{
	RK_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t n = 0;

	if (fd < 0 || fstat(fd, &st) != 0)
		return rk_err_set(err, RK_INVALID, "the credentials file \"%s\" cannot be read: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return rk_err_set(err, RK_INVALID, "the credentials file \"%s\" is no regular file", path);
	if ((st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0)) {
		rk_err_set(err, RK_INVALID, "the credentials file \"%s\" can be read or changed by others (mode %04o)", path, (unsigned)(st.st_mode & 07777));
		rk_err_hint(err, "chmod 600 %s", path);
		return RK_INVALID;
	}
	for (ssize_t got; n < max - 1 && (got = read(fd, buf + n, max - 1 - n)) > 0;)
		n += (size_t)got;
	buf[n] = '\0';
	if (n == max - 1 || strlen(buf) != n)
		return rk_err_set(err, RK_INVALID, "the credentials file \"%s\" is too long or no text", path);
	return 0;
}

int rk_credentials_read(const char *path, struct rk_credentials *ret, struct rk_err *err)
{
	const struct {
		const char *key;
		char **value;
	} rows[] = { { "user=", &ret->user }, { "password=", &ret->password }, { "token=", &ret->token } };
	char buf[CREDENTIALS_MAX], *rest_of = NULL;
	unsigned number = 0;
	int rc = read_secret_file(path, buf, sizeof(buf), err);

	for (char *line = rc ? NULL : strtok_r(buf, "\n", &rest_of); line && !rc; line = strtok_r(NULL, "\n", &rest_of)) {
		size_t i = 0;
		number++;
		line[strcspn(line, "\r")] = '\0';
		if (!*line || *line == '#')
			continue;
		while (i < RK_ARRAY_SIZE(rows) && !rk_starts_with(line, rows[i].key))
			i++;
		if (i == RK_ARRAY_SIZE(rows)) {
			rc = rk_err_set(err, RK_INVALID, "the credentials file \"%s\": line %u is none of user=, password=, token=", path, number);
		} else {
			rk_wipe(rows[i].value);
			*rows[i].value = rk_xstrdup(line + strlen(rows[i].key));
		}
	}
	explicit_bzero(buf, sizeof(buf));
	if (!rc && !ret->token && !(ret->user && ret->password))
		rc = rk_err_set(err, RK_INVALID, "the credentials file \"%s\" holds neither a token nor user and password", path);
	return rc;
}

static bool is_secret(const char *key, size_t n)
{
	static const char *const words[] = { "password", "passwd", "token", "secret", "private" };
	char lower[64];
	size_t len = n < sizeof(lower) - 1 ? n : sizeof(lower) - 1;

	for (size_t i = 0; i < len; i++)
		lower[i] = (char)tolower((unsigned char)key[i]);
	lower[len] = '\0';
	for (size_t i = 0; i < RK_ARRAY_SIZE(words); i++)
		if (strstr(lower, words[i]))
			return true;
	return false;
}

/* End of a JSON string that begins at text[at] == '"': the index of its closing quote, or len. */
static size_t string_end(const char *text, size_t len, size_t at)
{
	for (at++; at < len && text[at] != '"'; at++)
		at += text[at] == '\\';
	return at < len ? at : len;
}

void rk_rest_mask(struct rk_str *out, const char *json, size_t len)
{
	bool secret = false;

	for (size_t at = 0; at < len;) {
		if (json[at] != '"') {
			/* Only the value right behind the key. */
			secret &= strchr(" \t\r\n:", json[at]) != NULL;
			rk_str_addc(out, json[at++]);
			continue;
		}
		size_t end = string_end(json, len, at), next = end + 1;
		while (next < len && strchr(" \t\r\n", json[next]))
			next++;
		bool key = next < len && json[next] == ':';
		if (secret && !key)
			rk_str_add(out, "\"***\"");
		else
			rk_str_addn(out, json + at, (end < len ? end + 1 : len) - at);
		secret = key && is_secret(json + at + 1, end - at - 1);
		at = end < len ? end + 1 : len;
	}
}
