#pragma once
#include <microhttpd.h>
#include <sys/socket.h>

// The callbacks and limits of one daemon; MHD_start_daemon itself is variadic, which Swift cannot call.
struct teller_MHD_setup {
    int listen_fd;
    unsigned connections_max;
    unsigned idle_seconds_max;
    size_t connection_bytes;
    MHD_AccessHandlerCallback handler;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback connection;
    void *owner;
};

// libmicrohttpd would decode the path and the query in place; the router wants them as sent ("%2F" is data, not "/").
static inline size_t teller_MHD_keep_escapes(void *owner, struct MHD_Connection *connection, char *text) {
    (void)owner;
    (void)connection;
    size_t length = 0;
    while (text[length]) length++;
    return length;
}

static inline struct MHD_Daemon *teller_MHD_start(const struct teller_MHD_setup *setup) {
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO, 0, NULL, NULL, setup->handler, setup->owner,
        MHD_OPTION_LISTEN_SOCKET, setup->listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, setup->connections_max,
        MHD_OPTION_CONNECTION_TIMEOUT, setup->idle_seconds_max,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, setup->connection_bytes,
        MHD_OPTION_NOTIFY_COMPLETED, setup->completed, setup->owner,
        MHD_OPTION_NOTIFY_CONNECTION, setup->connection, setup->owner,
        MHD_OPTION_UNESCAPE_CALLBACK, teller_MHD_keep_escapes, NULL,
        MHD_OPTION_STRICT_FOR_CLIENT, 1,
        // SIGPIPE is ignored in this process, so no MSG_NOSIGNAL bookkeeping is needed (and sendfile may be used).
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_END);
}

// Variadic getters.
static inline int teller_MHD_epoll_fd(struct MHD_Daemon *daemon) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}
static inline int teller_MHD_connection_fd(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}
static inline void *teller_MHD_connection_owner(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}
// Casts in macros.
static inline ssize_t teller_MHD_end_with_error(void) { return MHD_CONTENT_READER_END_WITH_ERROR; }
static inline uint64_t teller_MHD_size_unknown(void) { return MHD_SIZE_UNKNOWN; }

// Swift sees SOCK_STREAM as an enum here and as a number there, depending on what else was imported.
static inline int teller_listening_socket_type(void) { return SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK; }
