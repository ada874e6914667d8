#pragma once
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// OpenSSL's stacks, generators and memory BIOs are macros (or variadic functions behind macros), which Swift cannot
// import. One function each, named after the macro it stands for.

static inline EVP_PKEY *teller_EVP_EC_gen(const char *curve) { return EVP_EC_gen(curve); }
static inline EVP_PKEY *teller_EVP_RSA_gen(unsigned int bits) { return EVP_RSA_gen(bits); }

static inline STACK_OF(X509) *teller_sk_X509_new_null(void) { return sk_X509_new_null(); }
static inline int teller_sk_X509_push(STACK_OF(X509) *stack, X509 *certificate) {
    return sk_X509_push(stack, certificate);
}
/// Frees the stack, not the certificates on it.
static inline void teller_sk_X509_free(STACK_OF(X509) *stack) { sk_X509_free(stack); }
static inline int teller_sk_X509_num(const STACK_OF(X509) *stack) { return sk_X509_num(stack); }

static inline long teller_BIO_get_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }

/// X509V3_set_ctx_nodb is a macro that assigns a field.
static inline void teller_X509V3_set_ctx_nodb(X509V3_CTX *context) { X509V3_set_ctx_nodb(context); }

/// XN_FLAG_RFC2253 is a macro expression of casts.
static inline int teller_X509_NAME_print_rfc2253(BIO *bio, const X509_NAME *name) {
    return X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253);
}
