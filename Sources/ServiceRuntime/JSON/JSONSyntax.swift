import CJansson

/// What jansson does not do for us: a chosen depth limit, and error texts that do not quote the document.
enum JSONSyntax {
    /// Refuses nesting deeper than `depthMax` before jansson (which recurses, up to 2048 levels) sees the document.
    static func checkDepth(_ bytes: UnsafeRawBufferPointer, depthMax: Int) throws(JSONError) {
        // Most documents have fewer opening brackets than allowed levels; counting them vectorises.
        // "[" is 0x5B and "{" is 0x7B: they differ in the bit 0x20 only.
        var opening = 0
        for byte in bytes { opening &+= (byte | 0x20) == 0x7b ? 1 : 0 }
        guard opening > depthMax else { return }

        var depth = 0
        var isInString = false
        var isEscaped = false
        for (offset, byte) in bytes.enumerated() {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                guard depth <= depthMax else {
                    let (line, column) = position(of: offset, in: bytes)
                    throw JSONError(
                        reason: "is nested deeper than \(depthMax) levels", line: line, column: column)
                }
            default: break
            }
        }
    }

    /// Line and column (in characters), both counted from 1, of the byte at `offset`.
    private static func position(of offset: Int, in bytes: UnsafeRawBufferPointer) -> (line: Int, column: Int) {
        var line = 1
        var column = 1
        for byte in bytes.prefix(offset) {
            if byte == UInt8(ascii: "\n") {
                line += 1
                column = 1
            } else if byte & 0xc0 != 0x80 {
                column += 1
            }
        }
        return (line, column)
    }

    /// The fixed text for jansson's error code; its own text quotes the input and is dropped.
    static func error(for failure: json_error_t) -> JSONError {
        var failure = failure
        let code = json_error_code(UInt32(truncatingIfNeeded: teller_json_error_code(&failure)))
        let reason =
            switch code {
            case json_error_out_of_memory: "does not fit in memory"
            case json_error_stack_overflow: "is nested too deeply"
            case json_error_invalid_utf8: "is not valid UTF-8"
            case json_error_premature_end_of_input: "ends too early"
            case json_error_end_of_input_expected: "has text after its end"
            case json_error_null_character, json_error_null_byte_in_key: "has a NUL character in a string"
            case json_error_duplicate_key: "has a duplicate key"
            case json_error_numeric_overflow: "has a number that is out of range"
            default: "is not valid JSON"
            }
        // jansson counts columns of characters read, so 0 means "before the first".
        return JSONError(reason: reason, line: max(1, Int(failure.line)), column: max(1, Int(failure.column)))
    }
}
