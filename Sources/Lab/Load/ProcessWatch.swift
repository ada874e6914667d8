import Glibc
import ServiceRuntime

/// What a process used during a run, from /proc.
public struct ProcessUsage: Sendable, Equatable {
    /// Its id.
    public let pid: Int32
    /// Its name, as the kernel has it (15 characters).
    public let name: String
    /// CPU time, user and system, between the first and the last look.
    public internal(set) var cpu: Duration = .zero
    /// Most memory seen at any look, once a second.
    public internal(set) var residentBytesMax = 0
    /// Memory at the last look.
    public internal(set) var residentBytesAtEnd = 0
    /// Whether it ended before the run did.
    public internal(set) var hasEnded = false
}

/// Looks at processes from outside.
@LoopActor
final class ProcessWatch {
    private var usages: [ProcessUsage] = []
    private var first: [Int32: ProcessLook] = [:]

    init(_ pids: [Int32]) {
        for pid in pids {
            guard let look = ProcessLook(of: pid) else {
                usages.append(ProcessUsage(pid: pid, name: "?", hasEnded: true))
                continue
            }
            first[pid] = look
            usages.append(ProcessUsage(pid: pid, name: look.name))
        }
    }

    /// Looks again, and says what was used since the beginning.
    @discardableResult
    func look() -> [ProcessUsage] {
        for index in usages.indices where !usages[index].hasEnded {
            let pid = usages[index].pid
            // Another start time: the number was given to another process.
            guard let begin = first[pid], let now = ProcessLook(of: pid), now.startedAtTicks == begin.startedAtTicks
            else {
                usages[index].hasEnded = true
                continue
            }
            usages[index].cpu = now.cpu - begin.cpu
            usages[index].residentBytesAtEnd = now.residentBytes
            usages[index].residentBytesMax = max(usages[index].residentBytesMax, now.residentBytes)
        }
        return usages
    }
}

/// One reading of `/proc/<pid>/stat` (proc_pid_stat(5)).
struct ProcessLook {
    let name: String
    let cpu: Duration
    let residentBytes: Int
    let startedAtTicks: Int64

    init?(of pid: Int32) {
        guard let file = fopen("/proc/\(pid)/stat", "re") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 2048)
        let count = fread(&bytes, 1, bytes.count, file)
        self.init(stat: String(decoding: bytes[..<count], as: UTF8.self))
    }

    init?(
        stat: String, ticksPerSecond: Int = sysconf(Int32(_SC_CLK_TCK)), pageBytes: Int = sysconf(Int32(_SC_PAGESIZE))
    ) {
        // The name is in brackets and may hold any character, brackets and spaces included.
        guard let open = stat.firstIndex(of: "("), let close = stat.lastIndex(of: ")"), open < close else { return nil }
        let fields = stat[close...].dropFirst().split(separator: " ")
        // Field 3 of the manual page, the state, is fields[0] here.
        guard fields.count > 21, fields[0] != "Z", let user = Int(fields[11]), let system = Int(fields[12]),
            let started = Int64(fields[19]), let pages = Int(fields[21])
        else { return nil }
        name = String(stat[stat.index(after: open)..<close])
        cpu = .seconds(Double(user + system) / Double(ticksPerSecond))
        residentBytes = pages * pageBytes
        startedAtTicks = started
    }
}
