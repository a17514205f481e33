/* Making key pairs. */
#include <libssh/libssh.h>
#include <string.h>
#include <sys/random.h>

#include "inventory/base/digest.h"
#include "provision/ssh.h"
#include "provision/ssh_wire.h"

static void wipe(struct rk_str *s)
{
	if (s->text)
		explicit_bzero(s->text, s->cap);
	rk_str_clear(s);
}

/* The unencrypted "openssh-key-v1" file of an ed25519 key (OpenSSH PROTOCOL.key). libssh's export has no comment, which names the key
 * on the guest. `pair` is seed and public key, 64 bytes. */
static char *private_file(const uint8_t *pair, const char *comment)
{
	static const char type[] = "ssh-ed25519", magic[] = "openssh-key-v1";
	struct rk_str pub = RK_STR_INIT, secret = RK_STR_INIT, all = RK_STR_INIT, text = RK_STR_INIT, file = RK_STR_INIT;
	uint32_t check = 0;

	(void)!getrandom(&check, sizeof(check), 0);
	rk_wire_add_string(&pub, type, strlen(type));
	rk_wire_add_string(&pub, pair + 32, 32);
	rk_wire_add_u32(&secret, check);
	rk_wire_add_u32(&secret, check);
	rk_str_addn(&secret, pub.text, pub.len);
	rk_wire_add_string(&secret, pair, 64);
	rk_wire_add_string(&secret, comment, strlen(comment));
	for (char pad = 1; secret.len % 8; pad++)
		rk_str_addc(&secret, pad);
	rk_str_addn(&all, magic, sizeof(magic));
	rk_wire_add_string(&all, "none", 4);
	rk_wire_add_string(&all, "none", 4);
	rk_wire_add_string(&all, "", 0);
	rk_wire_add_u32(&all, 1);
	rk_wire_add_string(&all, pub.text, pub.len);
	rk_wire_add_string(&all, secret.text, secret.len);
	rk_base64_add(&text, all.text, all.len);
	rk_str_add(&file, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
	for (size_t i = 0; i < text.len; i += 70) {
		rk_str_addn(&file, text.text + i, text.len - i < 70 ? text.len - i : 70);
		rk_str_addc(&file, '\n');
	}
	rk_str_add(&file, "-----END OPENSSH PRIVATE KEY-----\n");
	wipe(&pub);
	wipe(&secret);
	wipe(&all);
	wipe(&text);
	return rk_str_steal(&file);
}

/* Finds seed and public key in libssh's export: the 64-byte string that ends with the public key. */
static bool find_pair(const char *pem, const char *public_base64, uint8_t pair[64])
{
	uint8_t blob[1024], pub[128];
	char packed[1400];
	const char *begin = strchr(pem, '\n'), *end = strstr(pem, "\n-----END");
	size_t n = 0;

	for (const char *p = begin; p && p < end && n < sizeof(packed); p++)
		if (*p != '\n')
			packed[n++] = *p;
	long len = rk_base64_decode(packed, n, blob, sizeof(blob)), pub_len = rk_base64_decode(public_base64, strlen(public_base64), pub, sizeof(pub));
	bool found = false;
	for (long i = 0; pub_len == 51 && i + 68 <= len && !found; i++) {
		found = memcmp(blob + i, "\0\0\0\x40", 4) == 0 && memcmp(blob + i + 36, pub + 19, 32) == 0;
		if (found)
			memcpy(pair, blob + i + 4, 64);
	}
	explicit_bzero(blob, sizeof(blob));
	explicit_bzero(packed, sizeof(packed));
	return found;
}

int rk_ssh_make_key(const char *comment, char **ret_private, char **ret_public, struct rk_err *err)
{
	ssh_key key = NULL;
	char *pem = NULL, *pub = NULL;
	uint8_t pair[64];
	bool made = ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &key) == SSH_OK && ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &pem) == SSH_OK &&
		    ssh_pki_export_pubkey_base64(key, &pub) == SSH_OK && find_pair(pem, pub, pair);

	if (made) {
		*ret_private = private_file(pair, comment);
		*ret_public = rk_xasprintf("ssh-ed25519 %s%s%s", pub, *comment ? " " : "", comment);
	}
	explicit_bzero(pair, sizeof(pair));
	if (pem)
		explicit_bzero(pem, strlen(pem));
	ssh_string_free_char(pem);
	ssh_string_free_char(pub);
	ssh_key_free(key);
	return made ? 0 : rk_err_set(err, RK_FAILED, "an ed25519 key could not be made by the SSH library");
}
