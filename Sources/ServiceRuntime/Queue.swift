/// A first-in, first-out queue in one array that is used as a ring: no allocation once it has grown.
public struct Queue<Element> {
    private var slots: [Element?] = Array(repeating: nil, count: 64)
    private var head = 0
    /// Elements in it.
    public private(set) var count = 0

    /// Makes an empty queue.
    public init() {}

    /// Whether there is none.
    public var isEmpty: Bool { count == 0 }
    /// The oldest element.
    public var first: Element? { count == 0 ? nil : slots[head] }

    /// Puts an element at the end.
    public mutating func append(_ element: Element) {
        if count == slots.count { grow() }
        // The capacity is a power of two.
        slots[(head + count) & (slots.count - 1)] = element
        count += 1
    }

    /// Takes the oldest element out.
    public mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = slots[head].take()
        head = (head + 1) & (slots.count - 1)
        count -= 1
        return element
    }

    private mutating func grow() {
        var larger: [Element?] = []
        larger.reserveCapacity(slots.count * 2)
        larger.append(contentsOf: slots[head...])
        larger.append(contentsOf: slots[..<head])
        larger.append(contentsOf: repeatElement(nil, count: slots.count))
        slots = larger
        head = 0
    }
}
