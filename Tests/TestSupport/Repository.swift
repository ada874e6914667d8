/// The files of the repository.
public enum Repository {
    /// Its root, without a slash at the end.
    public static let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
        .joined(separator: "/")
}
