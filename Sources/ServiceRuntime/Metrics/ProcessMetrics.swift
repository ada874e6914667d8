import CJemalloc
import Glibc

/// The `process_*` metrics that Prometheus client libraries agree on, read from `/proc` when asked for.
///
/// `/proc` is answered from memory, so reading it on the loop does not wait for a disk.
struct ProcessMetrics {
    private let startSeconds: Double

    init() {
        // Metrics are made while the process starts; the kernel's own figure has 10 ms steps and needs the boot time.
        startSeconds = Double(UnixMilliseconds.now.value) / 1000
    }

    func append(to text: inout String) {
        var rows: [(name: String, help: String, type: String, value: Double)] = []
        if let status = Self.status() {
            rows.append(("process_cpu_seconds_total", "User and system CPU time.", "counter", Self.cpuSeconds()))
            rows.append(("process_resident_memory_bytes", "Resident memory.", "gauge", status.residentBytes))
            rows.append(("process_threads", "Threads, those of the libraries included.", "gauge", status.threads))
            rows.append(("process_virtual_memory_bytes", "Virtual memory.", "gauge", status.virtualBytes))
        }
        rows.append(
            (
                "teller_memory_allocated_bytes", "Memory in use, as the allocator counts it: growth is a leak.",
                "gauge",
                Double(Allocator.allocatedBytes)
            ))
        rows.append(("process_max_fds", "Most file descriptors allowed.", "gauge", Self.descriptorsMax()))
        rows.append(("process_open_fds", "Open file descriptors.", "gauge", Self.openDescriptors()))
        rows.append(("process_start_time_seconds", "Start of the process, Unix time.", "gauge", startSeconds))
        rows.append(
            (
                "teller_loop_jobs_from_other_threads_total",
                "Jobs that other threads handed to the event loop: next to none, or work leaks to a thread pool.",
                "counter", Double(EventLoop.shared.jobsFromOtherThreads)
            ))
        for row in rows {
            PrometheusText.appendHeader(row.name, row.help, type: row.type, to: &text)
            PrometheusText.append(row.name, "", PrometheusText.number(row.value), to: &text)
        }
    }

    private struct Status {
        var threads, virtualBytes, residentBytes: Double
    }

    /// Fields 20, 23 and 24 of `/proc/self/stat`; see proc(5).
    private static func status() -> Status? {
        let descriptor = open("/proc/self/stat", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let content = [UInt8](unsafeUninitializedCapacity: 1024) { buffer, count in
            count = max(0, read(descriptor, buffer.baseAddress, buffer.count))
        }
        // Field 2, the program's name, may hold spaces and parentheses: count from the last ")", which ends it.
        guard let nameEnd = content.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = content[(nameEnd + 1)...].split(separator: UInt8(ascii: " ")).map { field in
            Double(String(decoding: field, as: UTF8.self)) ?? 0
        }
        guard fields.count > 21 else { return nil }
        return Status(threads: fields[17], virtualBytes: fields[20], residentBytes: fields[21] * Double(getpagesize()))
    }

    private static func cpuSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }

    private static func descriptorsMax() -> Double {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 0 }
        return Double(limit.rlim_cur)
    }

    private static func openDescriptors() -> Double {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var entries = 0
        while readdir(directory) != nil { entries += 1 }
        // Without ".", ".." and the directory itself.
        return Double(max(0, entries - 3))
    }
}

/// jemalloc, in place of glibc's allocator.
///
/// A receipt is some hundred short-lived strings, arrays and handles of libcurl: with jemalloc the worker needs an
/// eighth less CPU, and memory that a peak took is given back. It takes the place of `malloc` by being linked; asking it
/// something, as here, keeps it linked.
enum Allocator {
    /// Bytes that the program has allocated and not freed (`stats.allocated`, jemalloc(3)).
    static var allocatedBytes: Int {
        var epoch: UInt64 = 1
        var allocated = 0
        var size = MemoryLayout<Int>.size
        // Statistics are a snapshot, taken anew when the epoch is written.
        mallctl("epoch", nil, nil, &epoch, MemoryLayout<UInt64>.size)
        mallctl("stats.allocated", &allocated, &size, nil, 0)
        return allocated
    }
}
