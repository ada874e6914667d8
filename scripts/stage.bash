# A whole Teller on this machine, private and on free ports (`source`d after common.bash and `make_scratch`): what the
# demonstration, the benchmark and the check of deploy/ put on the stage. Everything is in `$scratch` and in sessions of
# its own, so the trap of `make_scratch` ends it.
# shellcheck shell=bash disable=SC2154,SC2034  # root, scratch: from common.bash; the URLs: for the scripts

# A TCP port that nobody uses at the moment.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    printf '%s\n' "$port"
}

# A redis-server with deploy/redis.conf, data and passwords in the directory `$1`: `redis_port`, and one
# <role>.password file per user. A second call with the same directory starts the same server again. `redis_options`
# is added to its command line.
redis_options=()
start_redis() {
    local role password tries
    redis_directory=$1
    if [[ ! -e $redis_directory/redis.conf ]]; then
        mkdir -p "$redis_directory"
        cp "$root/deploy/redis.conf" "$redis_directory/redis.conf"
        for role in teller-api teller-worker teller-ops game-server-producer; do
            password=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
            printf '%s' "$password" >"$redis_directory/$role.password"
            sed -i "s/^user $role on resetpass/& #$(printf '%s' "$password" | sha256sum | cut -d ' ' -f 1)/" \
                "$redis_directory/redis.conf"
        done
        redis_port=$(free_port)
    fi
    in_session redis-server "$redis_directory/redis.conf" --port "$redis_port" --bind 127.0.0.1 \
        --dir "$redis_directory" --logfile "$redis_directory/log" --daemonize no "${redis_options[@]}"
    redis_pid=$!
    for ((tries = 0; tries < 100; tries++)); do
        [[ $(redis-cli -p "$redis_port" ping 2>&1) == *NOAUTH* ]] && return 0
        sleep 0.05
    done
    tail -n 20 "$redis_directory/log" >&2
    die "redis-server does not answer on port $redis_port"
}

# Both stores, as emulated by teller-lab: `emulator_url`, and in $scratch/stores the keys and stores.json, which is the
# `apple` and `google` part of a configuration that fits them.
start_emulator() {
    local port
    port=$(free_port)
    emulator_url=http://127.0.0.1:$port
    in_session "$bin/teller-lab" emulator --port "$port" --directory "$scratch/stores" >"$scratch/emulator.log" 2>&1
    wait_until 10 "the store emulator" "$scratch/emulator.log" test -s "$scratch/stores/stores.json"
}

# teller.json for that emulator, and one API key: `api_key`.
write_configuration() {
    local secret
    secret=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
    api_key=demo.$secret
    api_port=$(free_port)
    api_url=http://127.0.0.1:$api_port
    api_operations_port=$(free_port)
    jq --arg sha256 "$(printf '%s' "$secret" | sha256sum | cut -d ' ' -f 1)" --arg catalogue "$1" \
        --arg redis "redis://127.0.0.1:$redis_port/0" --arg listen "127.0.0.1:$api_port" \
        --arg operations "127.0.0.1:$api_operations_port" '{
            redis: {url: $redis},
            catalogue: $catalogue,
            log: {format: "json"},
            api: {
                listen: $listen, operationsListen: $operations,
                keys: [{id: "demo", sha256: $sha256, scopes: ["submit", "read"]}]
            },
            sandbox: {credit: "nobody"}
        } + .' "$scratch/stores/stores.json" >"$scratch/teller.json"
}

# `teller` with the rights of one Redis role, as in production: as_role <role> <command> <arguments>.
as_role() {
    local role=$1
    shift
    env TELLER_REDIS_URL="redis://$role@127.0.0.1:$redis_port/0" \
        TELLER_REDIS_PASSWORD_FILE="$redis_directory/$role.password" "$bin/teller" "$@" --config "$scratch/teller.json"
}

# The same in the background, in a session of its own: start_role <log> <role> <command> <environment>.
start_role() {
    local log=$1 role=$2 command=$3
    shift 3
    in_session env TELLER_REDIS_URL="redis://$role@127.0.0.1:$redis_port/0" \
        TELLER_REDIS_PASSWORD_FILE="$redis_directory/$role.password" "$@" \
        "$bin/teller" "$command" --config "$scratch/teller.json" >"$log" 2>&1
    disown # no word from bash about one that is killed on purpose
}

start_api() {
    start_role "$scratch/api.log" teller-api api
    wait_until 10 "the API" "$scratch/api.log" curl -fsS -o "$scratch/ready" "http://127.0.0.1:$api_operations_port/readyz"
}

# The worker called `$1`; its operations port is in `worker_port`.
start_worker() {
    worker_port=$(free_port)
    start_role "$scratch/$1.log" teller-worker worker "TELLER_WORKER_OPERATIONS_LISTEN=127.0.0.1:$worker_port"
    wait_until 10 "$1" "$scratch/$1.log" curl -fsS -o "$scratch/ready" "http://127.0.0.1:$worker_port/readyz"
}

# redis-cli with the rights of the person on call.
redis_ops() {
    REDISCLI_AUTH=$(cat "$redis_directory/teller-ops.password") redis-cli -p "$redis_port" --user teller-ops "$@"
}

# wait_until <seconds> <what> <its log> <command that is true when it is there>
wait_until() {
    local tries what=$2 log=$3 limit=$(($1 * 20))
    shift 3
    for ((tries = 0; tries < limit; tries++)); do
        "$@" 2>/dev/null && return 0
        sleep 0.05
    done
    tail -n 20 "$log" >&2
    die "$what did not get ready; the end of its log is above"
}
