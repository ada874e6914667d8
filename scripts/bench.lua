-- wrk's script for scripts/bench: a purchase of about 1 KB, each with a token of its own, answered without waiting
-- for the store (Prefer: wait=0, so 202). At the end one line of JSON.
local threads = {}
local padding = string.rep("abcdefghij", 86)

function setup(thread)
    thread:set("id", #threads)
    table.insert(threads, thread)
end

function init()
    unexpected, sent = 0, 0
    wrk.method = "POST"
    wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_API_KEY")
    wrk.headers["Content-Type"] = "application/json"
    wrk.headers["Prefer"] = "wait=0"
end

function request()
    sent = sent + 1
    return wrk.format(nil, nil, nil, string.format(
        '{"userId":"bench-%d","productId":"gems_pack_medium","platform":"android","receiptData":"tok-%d-%d.%s"}',
        sent % 1000, id, sent, padding))
end

function response(status) if status ~= 202 then unexpected = unexpected + 1 end end

function done(summary, latency)
    local wrong = 0
    for _, thread in ipairs(threads) do wrong = wrong + thread:get("unexpected") end
    local errors = summary.errors
    io.write(string.format(
        'JSON {"requests":%d,"seconds":%.3f,"perSecond":%.0f,"p50Ms":%.3f,"p99Ms":%.3f,"not202":%d,"socketErrors":%d}\n',
        summary.requests, summary.duration / 1e6, summary.requests * 1e6 / summary.duration,
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, wrong,
        errors.connect + errors.read + errors.write + errors.timeout))
end
