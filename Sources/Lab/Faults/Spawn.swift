package import Glibc

/// Starts programs.
package enum Spawn {
    /// Starts `words`, looked up in PATH, with these descriptors as its standard input, output and error.
    ///
    /// - Parameters:
    ///   - words: The program and its arguments.
    ///   - environment: Added to the environment of this process.
    ///   - input: Stays open here, as do the others.
    ///   - output: As above.
    ///   - errors: As above.
    /// - Returns: Its process id, to be waited for.
    /// - Throws: `LabError.stage` when there is no such program or no room for a process.
    package static func start(
        _ words: [String], environment: [String: String] = [:], input: Int32, output: Int32, errors: Int32
    ) throws(LabError) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (descriptor, number) in [(input, 0), (output, 1), (errors, 2)] as [(Int32, Int32)] {
            posix_spawn_file_actions_adddup2(&actions, descriptor, number)
        }
        // The calling thread may have signals blocked, and a child would inherit that.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        var variables: [UnsafeMutablePointer<CChar>?] =
            inherited(besides: environment).map { strdup($0) } + environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for pointer in arguments + variables { free(pointer) } }
        var child = pid_t()
        let status = posix_spawnp(&child, words[0], &actions, &attributes, &arguments, &variables)
        guard status == 0 else { throw .stage("\(words[0]): \(String(cString: strerror(status)))") }
        return child
    }

    private static func inherited(besides own: [String: String]) -> [String] {
        var variables: [String] = []
        var next = environ
        while let variable = next.pointee {
            let text = String(cString: variable)
            let name = String(text.prefix { $0 != "=" })
            // TELLER_… of the surroundings must not configure what is under test.
            if own[name] == nil, !name.hasPrefix("TELLER_") { variables.append(text) }
            next += 1
        }
        return variables
    }
}
