#include "inventory/site_values.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "inventory/base/str.h"

/* form: 'x' stands for one of digits, anything else for itself. */
static bool has_form(const char *s, const char *form, const char *digits)
{
	if (strlen(s) != strlen(form))
		return false;
	for (size_t i = 0; form[i]; i++)
		if (form[i] == 'x' ? !strchr(digits, s[i]) : s[i] != form[i])
			return false;
	return true;
}

bool rk_pci_valid(const char *s)
{
	return has_form(s, "xxxx:xx:xx.x", "0123456789abcdef");
}

bool rk_uuid_valid(const char *s)
{
	return has_form(s, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "0123456789abcdefABCDEF") && strspn(s, "0-") != strlen(s);
}

static bool address(const char *s, unsigned *ret_bits)
{
	struct in_addr v4;
	struct in6_addr v6;

	*ret_bits = inet_pton(AF_INET, s, &v4) == 1 ? 32 : inet_pton(AF_INET6, s, &v6) == 1 ? 128 : 0;
	return *ret_bits > 0;
}

bool rk_ip_valid(const char *s)
{
	unsigned bits;

	return address(s, &bits);
}

bool rk_cidr_valid(const char *s)
{
	char text[INET6_ADDRSTRLEN];
	const char *slash = strchr(s, '/');
	uint64_t prefix;
	unsigned bits;

	if (!slash || (size_t)(slash - s) >= sizeof(text) || !isdigit((unsigned char)slash[1]) || !rk_parse_u64(slash + 1, &prefix))
		return false;
	memcpy(text, s, (size_t)(slash - s));
	text[slash - s] = '\0';
	return address(text, &bits) && prefix <= bits;
}

bool rk_image_name_valid(const char *s)
{
	size_t len = strlen(s);

	return len >= 1 && len <= 63 && isalnum((unsigned char)s[0]) &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

bool rk_libvirt_uri_valid(const char *s)
{
	size_t scheme = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+");

	for (const char *p = s; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return scheme > 0 && rk_starts_with(s + scheme, "://");
}

/* One hop, `len` bytes: what a name, address or port cannot hold would reach a shell or an option parser of others. */
static bool hop_valid(const char *s, size_t len)
{
	static const char charset[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@:%[]";
	const char *at = memchr(s, '@', len);

	return len > 0 && strspn(s, charset) >= len && *s != '-' && *s != '@' && s[len - 1] != '@' && !(at && at[1] == '-');
}

bool rk_jump_valid(const char *s)
{
	enum { HOPS_MAX = 4 };
	int hops = 0;

	if (!*s)
		return true;
	for (;; s++) {
		size_t len = strcspn(s, ",");
		if (++hops > HOPS_MAX || !hop_valid(s, len))
			return false;
		s += len;
		if (!*s)
			return true;
	}
}
