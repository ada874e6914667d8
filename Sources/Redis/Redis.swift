// The Redis module: everything Teller says to Redis goes through it.
//
// Redis is the system of record, so the client must never be vague about what happened to a command. Each has exactly
// one of four ends: a reply, an error reply, "was not sent" or "was sent, outcome unknown" (`RedisError`); the first three
// are safe to act on, and for the fourth every script of Teller can be asked again. Nothing is repeated behind the
// caller's back.
//
//     RedisLink            one socket: pairs replies with commands, counts what was written, enforces deadlines
//     RedisConnection      ordinary commands and scripts of all tasks, pipelined; reconnects
//     BatchedScript        the calls of one script in one turn as one EVALSHA
//     BlockingConnection   BLMOVE, and a script right behind it, on a socket of its own
//     RedisSubscriber      publish/subscribe; resubscribes
//     RedisSafety          is this server fit to hold money?
//     RedisSafetyGuard     refuses one that is not, at every connect, and says what is to be done
//
// On a crash of this process: commands that were written may or may not have been applied, exactly as with
// `connectionLost`; the protocol of Jobs and Ledger is built on that. On a crash of the server: with `appendfsync always`
// everything that was answered is on disk.
