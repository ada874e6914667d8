import CCurl
import ServiceRuntime

/// One libcurl multi handle: some transfers and the connections they share.
///
/// libcurl 7.88 searches the connections of a multi handle one after the other for every request, so ``HTTPClient``
/// spreads its requests over many of these with few connections each.
@LoopActor
final class CurlShard {
    let number: Int
    private(set) var inFlight = 0
    /// True while the client will run this shard at the end of the turn.
    var isKicked = false
    /// When libcurl wants to be called although nothing happened, in milliseconds of ``HTTPClient``'s clock.
    private(set) var dueAt = Int64.max

    private let multi: UnsafeMutableRawPointer
    private unowned let client: HTTPClient

    init?(_ number: Int, client: HTTPClient, connectionsMax: Int) {
        guard let multi = curl_multi_init() else { return nil }
        self.number = number
        self.multi = multi
        self.client = client
        teller_multi_setopt_callbacks(
            multi, Self.socketChanged, Self.timerChanged, Unmanaged.passUnretained(self).toOpaque())
        teller_multi_setopt_long(multi, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX))
        teller_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, connectionsMax)
    }

    /// Frees the multi handle and closes its connections; no transfer may be left in it.
    func close() { curl_multi_cleanup(multi) }

    /// Takes a prepared transfer; it starts when the shard runs at the end of the turn.
    func add(_ transfer: Transfer) -> Bool {
        transfer.shard = self
        inFlight += 1
        guard curl_multi_add_handle(multi, transfer.easy) == CURLM_OK else {
            remove(transfer)
            return false
        }
        return true
    }

    /// Takes a transfer out, whether it is finished or not.
    func remove(_ transfer: Transfer) {
        curl_multi_remove_handle(multi, transfer.easy)
        transfer.shard = nil
        inFlight -= 1
    }

    /// Tells libcurl that a socket is ready, and passes on what came to an end by that.
    func act(_ descriptor: Int32, _ events: IOEvents) {
        var bits: Int32 = 0
        if events.contains(.readable) { bits |= CURL_CSELECT_IN }
        if events.contains(.writable) { bits |= CURL_CSELECT_OUT }
        var running: Int32 = 0
        curl_multi_socket_action(multi, descriptor, bits, &running)
        reap()
    }

    /// Lets libcurl look at its clocks because one of them is due.
    func runDue(_ now: Int64) {
        // libcurl announces a time once. If the two clocks disagree about its having come, ask again soon.
        dueAt = now + 50
        run()
    }

    /// Starts what was added and lets libcurl look at its clocks.
    func run() {
        var running: Int32 = 0
        curl_multi_socket_action(multi, teller_no_socket(), 0, &running)
        reap()
    }

    private func reap() {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left)?.pointee {
            guard message.msg == CURLMSG_DONE, let transfer = Transfer.of(message.easy_handle) else { continue }
            client.finished(transfer, message.data.result)
        }
    }

    private func timerSet(_ milliseconds: Int) {
        switch milliseconds {
        case 0: client.kick(self)
        case 1...: dueAt = client.clock() + Int64(milliseconds)
        default: dueAt = .max
        }
    }

    private func socketSet(_ descriptor: Int32, _ what: Int32) {
        switch what {
        case CURL_POLL_IN: client.sockets.watch(descriptor, .readable, for: self)
        case CURL_POLL_OUT: client.sockets.watch(descriptor, .writable, for: self)
        case CURL_POLL_INOUT: client.sockets.watch(descriptor, [.readable, .writable], for: self)
        default: client.sockets.forget(descriptor)
        }
    }

    private static let socketChanged: curl_socket_callback = { _, descriptor, what, owner, _ in
        guard let owner else { return 0 }
        let shard = Unmanaged<CurlShard>.fromOpaque(owner).takeUnretainedValue()
        LoopActor.assumeIsolated { shard.socketSet(descriptor, what) }
        return 0
    }

    private static let timerChanged: curl_multi_timer_callback = { _, milliseconds, owner in
        guard let owner else { return 0 }
        let shard = Unmanaged<CurlShard>.fromOpaque(owner).takeUnretainedValue()
        LoopActor.assumeIsolated { shard.timerSet(milliseconds) }
        return 0
    }
}
