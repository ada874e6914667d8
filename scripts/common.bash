# Shared by the scripts beside it (`source`d, never run): messages, and starting things so that they can be stopped.
# shellcheck shell=bash

# Inherited GIT_DIR and the like would point swift at another checkout.
unset GIT_DIR GIT_WORK_TREE CDPATH
# shellcheck disable=SC2034  # for the scripts
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# One headline per step, with the seconds since the script began: a long build must never look like a hang.
step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# Both programs as they ship: with the Swift runtime inside, which is also faster than calling it in shared libraries.
build_release() {
    local product
    for product in teller teller-lab; do run swift build -c release --static-swift-stdlib --product "$product"; done
}

# The sessions (see setsid(2)) that `in_session` opened. What is in one of them was started by this script, also a
# grandchild whose parent is dead: this is how everything is found again without ever killing by name.
sessions=()

# Starts a command in a session of its own, in the background; its process id is in `$!`.
in_session() {
    setsid "$@" &
    sessions+=("$!")
}

# The living processes of some sessions. /proc, because procps is not on every machine.
session_members() {
    local stat fields session
    for stat in /proc/[0-9]*/stat; do
        { read -r fields <"$stat"; } 2>/dev/null || continue
        # The command name may hold spaces and brackets: what counts starts after its last bracket.
        read -r _ _ _ session _ <<<"${fields##*) }"
        [[ " $* " == *" $session "* && ${fields##*) } != Z* ]] && printf '%s\n' "${fields%% *}"
    done
    return 0
}

# SIGTERM to all that `in_session` started, SIGKILL to what is still there five seconds later.
stop_sessions() {
    local members signal=TERM begin=$SECONDS
    while ((SECONDS < begin + 15)); do
        members=$(session_members "${sessions[@]}")
        [[ -z $members ]] && return 0
        ((SECONDS < begin + 5)) || signal=KILL
        # Once: to many programs a second SIGTERM means "now".
        # shellcheck disable=SC2086  # one word per process
        [[ $signal == sent ]] || kill -s "$signal" $members 2>/dev/null || true
        signal=sent
        sleep 0.2
    done
    printf 'could not stop: %s\n' "${members//$'\n'/ }" >&2
    return 1
}

# A private directory in `$scratch`, and a trap that stops every session and removes it, however the script ends.
make_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/teller.XXXXXX")
    trap 'clean_up' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

clean_up() {
    local status=$?
    trap '' HUP INT TERM
    stop_sessions || status=1
    rm -rf "$scratch"
    exit "$status"
}

# Runs a command to its end in a session of its own, so that an interrupt stops it with all its children.
run() {
    in_session "$@"
    wait "$!"
}
