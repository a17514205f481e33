/* Signatures of SSH keys (RFC 4253 section 6.6, RFC 5656, RFC 8332, RFC 8709), checked by libcrypto. */
#pragma once
#include "inventory/base/err.h"
#include "provision/ssh_wire.h"

/* Did the owner of this public key sign the data? Both in the form of the protocol. Ed25519, ECDSA on the NIST curves, RSA of 2048 bits or more with
 * SHA-2; RK_INVALID with the reason for everything else, as what is signed is. */
int rk_ssh_signature_check(struct rk_bytes key, struct rk_bytes signature, struct rk_bytes data, struct rk_err *err);
