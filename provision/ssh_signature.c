#include "provision/ssh_signature.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <string.h>

#include "inventory/base/mem.h"

enum { RSA_BITS_MIN = 2048 };

struct algorithm {
	const char *name, *key;       /* of the signature and of the key */
	const char *digest, *group;   /* in libcrypto's words, or NULL */
	EVP_PKEY *(*read_key)(struct rk_wire *key, const struct algorithm *a);
	bool pair;                    /* the signature is two numbers, which libcrypto wants in DER */
};

static EVP_PKEY *read_ed25519(struct rk_wire *key, const struct algorithm *a)
{
	struct rk_bytes point = rk_wire_string(key);

	(void)a;
	return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, point.at, point.n);
}

static EVP_PKEY *made(const char *type, OSSL_PARAM *params)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *key = NULL;

	if (ctx && params && EVP_PKEY_fromdata_init(ctx) == 1)
		(void)!EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* The curve is named again inside of the key; a point that is not on it is none for libcrypto. */
static EVP_PKEY *read_ecdsa(struct rk_wire *key, const struct algorithm *a)
{
	struct rk_bytes curve = rk_wire_string(key), point = rk_wire_string(key);
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)a->group, 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)point.at, point.n),
		OSSL_PARAM_construct_end(),
	};

	return point.n && rk_bytes_are(curve, a->key + strlen("ecdsa-sha2-")) ? made("EC", params) : NULL;
}

static EVP_PKEY *read_rsa(struct rk_wire *key, const struct algorithm *a)
{
	struct rk_bytes e = rk_wire_string(key), n = rk_wire_string(key);
	BIGNUM *exponent = BN_bin2bn(e.at, (int)e.n, NULL), *modulus = BN_bin2bn(n.at, (int)n.n, NULL);
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	OSSL_PARAM *params = NULL;

	(void)a;
	if (exponent && modulus && build && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, exponent) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, modulus) == 1)
		params = OSSL_PARAM_BLD_to_param(build);
	EVP_PKEY *rsa = made("RSA", params);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	BN_free(exponent);
	BN_free(modulus);
	return rsa;
}

static const struct algorithm algorithms[] = {
	{ "ssh-ed25519", "ssh-ed25519", NULL, NULL, read_ed25519, false },
	{ "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256", "SHA256", "P-256", read_ecdsa, true },
	{ "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384", "SHA384", "P-384", read_ecdsa, true },
	{ "ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521", "SHA512", "P-521", read_ecdsa, true },
	{ "rsa-sha2-512", "ssh-rsa", "SHA512", NULL, read_rsa, false },
	{ "rsa-sha2-256", "ssh-rsa", "SHA256", NULL, read_rsa, false },
};

static void not_taken(struct rk_bytes name, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_escaped(&text, (const char *)name.at, name.n < 64 ? name.n : 64);
	rk_err_set(err, RK_INVALID, "a signature of the kind \"%s\" is not taken%s", rk_str_text(&text),
		   rk_bytes_are(name, "ssh-rsa") ? ", because it rests on SHA-1" : "; Ed25519, ECDSA and RSA with SHA-2 are");
}

/* NULL with the reason. */
static const struct algorithm *find_algorithm(struct rk_bytes signed_as, struct rk_bytes key_type, struct rk_err *err)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(algorithms); i++) {
		if (!rk_bytes_are(signed_as, algorithms[i].name))
			continue;
		if (rk_bytes_are(key_type, algorithms[i].key))
			return &algorithms[i];
		rk_err_set(err, RK_INVALID, "the signature is of another kind than the key");
		return NULL;
	}
	not_taken(signed_as, err);
	return NULL;
}

/* r and s as SSH writes them to what libcrypto reads. */
static unsigned char *pair_to_der(struct rk_bytes pair, int *ret_len)
{
	struct rk_wire wire = rk_wire_of(pair);
	struct rk_bytes r = rk_wire_string(&wire), s = rk_wire_string(&wire);
	ECDSA_SIG *sig = ECDSA_SIG_new();
	unsigned char *der = NULL;

	*ret_len = -1;
	if (sig && !wire.bad && !wire.left && ECDSA_SIG_set0(sig, BN_bin2bn(r.at, (int)r.n, NULL), BN_bin2bn(s.at, (int)s.n, NULL)) == 1)
		*ret_len = i2d_ECDSA_SIG(sig, &der);
	ECDSA_SIG_free(sig);
	return der;
}

static bool holds(EVP_PKEY *key, const struct algorithm *a, struct rk_bytes signature, struct rk_bytes data)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char *der = NULL;
	int len = (int)signature.n;

	if (a->pair)
		der = pair_to_der(signature, &len);
	bool good = ctx && len > 0 && EVP_DigestVerifyInit_ex(ctx, NULL, a->digest, NULL, NULL, key, NULL) == 1 &&
		    EVP_DigestVerify(ctx, der ? der : signature.at, (size_t)len, data.at, data.n) == 1;
	OPENSSL_free(der);
	EVP_MD_CTX_free(ctx);
	return good;
}

static int check(const struct algorithm *a, struct rk_wire *key, struct rk_bytes signature, struct rk_bytes data, struct rk_err *err)
{
	EVP_PKEY *parsed = a->read_key(key, a);
	int rc = 0;

	if (!parsed || key->bad || key->left)
		rc = rk_err_set(err, RK_INVALID, "the key that signed is malformed");
	else if (rk_streq(a->key, "ssh-rsa") && EVP_PKEY_get_bits(parsed) < RSA_BITS_MIN)
		rc = rk_err_set(err, RK_INVALID, "the RSA key that signed has only %d bits, %d are needed", EVP_PKEY_get_bits(parsed), RSA_BITS_MIN);
	else if (!holds(parsed, a, signature, data))
		rc = rk_err_set(err, RK_INVALID, "the signature does not hold");
	EVP_PKEY_free(parsed);
	return rc;
}

int rk_ssh_signature_check(struct rk_bytes key, struct rk_bytes signature, struct rk_bytes data, struct rk_err *err)
{
	struct rk_wire k = rk_wire_of(key), s = rk_wire_of(signature);
	struct rk_bytes key_type = rk_wire_string(&k), signed_as = rk_wire_string(&s), bytes = rk_wire_string(&s);

	if (s.bad || s.left)
		return rk_err_set(err, RK_INVALID, "the signature is malformed");
	const struct algorithm *a = find_algorithm(signed_as, key_type, err);
	int rc = a ? check(a, &k, bytes, data, err) : RK_INVALID;
	ERR_clear_error(); /* else whoever uses libcrypto next in this thread takes what is left for its own */
	return rc;
}
