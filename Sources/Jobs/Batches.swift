import Redis
import ServiceRuntime

/// The scripts whose calls are joined: many jobs change their place in one turn of the loop.
@LoopActor
struct Batches {
    let enqueue: BatchedScript
    let settle: BatchedScript
    let retry: BatchedScript
    let bury: BatchedScript
    let release: BatchedScript

    init(
        _ redis: RedisConnection, _ keys: JobKeys, _ incarnation: String, _ worker: WorkerID?,
        _ configuration: JobQueue.Configuration
    ) {
        let meta = RedisArgument.string(keys.meta)
        let incarnation = RedisArgument.string(incarnation)
        let lifetime = RedisArgument.int(configuration.statusLifetime.inMilliseconds / 1000)
        let channel = RedisArgument.string(keys.settledChannel)
        // Without a worker there is no running hash; every transition then finds nothing.
        let running = RedisArgument.string(worker.map(keys.running) ?? keys.prefix + "running:none")
        func batch(
            _ script: RedisScript, _ sharedKeys: [RedisArgument], _ sharedArguments: [RedisArgument], keys: Int,
            arguments: Int
        ) -> BatchedScript {
            BatchedScript(
                script, on: redis, sharedKeys: [meta] + sharedKeys, sharedArguments: [incarnation] + sharedArguments,
                keysPerCall: keys, argumentsPerCall: arguments, batchMax: configuration.batchMax)
        }
        enqueue = batch(
            JobScripts.enqueue, [],
            [
                .int(configuration.aliveWindow.inMilliseconds), .int(configuration.lookAgainInterval.inMilliseconds),
                lifetime,
            ], keys: 2, arguments: 3)
        settle = batch(
            JobScripts.settle, [running], [lifetime, channel, .string(keys.pendingPrefix)], keys: 1, arguments: 4)
        retry = batch(
            JobScripts.retry, [running, .string(keys.pulse)], [lifetime, channel], keys: 2, arguments: 5)
        bury = batch(
            JobScripts.bury, [running, .string(keys.dead), .string(keys.deadIndex)], [lifetime, channel], keys: 1,
            arguments: 5)
        release = batch(JobScripts.release, [running], [], keys: 1, arguments: 1)
    }
}
