#pragma once
#include <curl/curl.h>
#include <sys/socket.h>

// curl's setopt and getinfo are variadic, which Swift cannot call: one function per argument type.
static inline CURLcode teller_setopt_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode teller_setopt_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode teller_setopt_text(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode teller_setopt_pointer(CURL *easy, CURLoption option, const void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode teller_setopt_headers(CURL *easy, struct curl_slist *value) {
    return curl_easy_setopt(easy, CURLOPT_HTTPHEADER, value);
}
static inline CURLcode teller_setopt_share(CURL *easy, CURLSH *value) {
    return curl_easy_setopt(easy, CURLOPT_SHARE, value);
}
// The body and the header lines of an answer, delivered to one owner.
static inline CURLcode teller_setopt_receivers(CURL *easy, curl_write_callback body, curl_write_callback header,
                                               void *owner) {
    CURLcode failed = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body);
    if (!failed) failed = curl_easy_setopt(easy, CURLOPT_WRITEDATA, owner);
    if (!failed) failed = curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header);
    if (!failed) failed = curl_easy_setopt(easy, CURLOPT_HEADERDATA, owner);
    return failed;
}
// Who makes and closes the sockets of connections.
static inline CURLcode teller_setopt_sockets(CURL *easy, curl_opensocket_callback open,
                                             curl_closesocket_callback close, void *owner) {
    CURLcode failed = curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open);
    if (!failed) failed = curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, owner);
    if (!failed) failed = curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close);
    if (!failed) failed = curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, owner);
    return failed;
}
static inline CURLcode teller_getinfo_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode teller_getinfo_pointer(CURL *easy, CURLINFO info, void **value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLMcode teller_multi_setopt_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode teller_multi_setopt_callbacks(CURLM *multi, curl_socket_callback socket,
                                                      curl_multi_timer_callback timer, void *owner) {
    CURLMcode failed = curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    if (!failed) failed = curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, owner);
    if (!failed) failed = curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    if (!failed) failed = curl_multi_setopt(multi, CURLMOPT_TIMERDATA, owner);
    return failed;
}
static inline CURLSHcode teller_share_data(CURLSH *share, curl_lock_data data) {
    return curl_share_setopt(share, CURLSHOPT_SHARE, data);
}
// A macro with a cast.
static inline curl_socket_t teller_no_socket(void) { return CURL_SOCKET_TIMEOUT; }
// Swift sees SOCK_CLOEXEC as an enum here and as a number there, depending on what else was imported.
static inline int teller_socket_flags(void) { return SOCK_CLOEXEC | SOCK_NONBLOCK; }
// Where to connect, parsed once for many requests.
static inline CURLcode teller_setopt_origin(CURL *easy, CURLU *origin) {
    return curl_easy_setopt(easy, CURLOPT_CURLU, origin);
}
