// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
    // Without it generic code of one module (JSON, queues) is called unspecialised from the others: a tenth of the
    // instructions of a receipt. An unsafe flag only means that no other package can depend on this one.
    .unsafeFlags(["-cross-module-optimization"], .when(configuration: .release)),
]

/// A Debian C library seen through `module.modulemap` and `shim.h` in `Sources/<name>`.
func library(_ name: String, debian package: String) -> Target {
    .systemLibrary(name: name, providers: [.apt([package])])
}

/// A Swift module; `knows` lists every module it may import (checked by `scripts/check-layering`).
func module(_ name: String, knows: [String], resources: [Resource] = []) -> Target {
    .target(
        name: name, dependencies: knows.map { .init(stringLiteral: $0) }, resources: resources, swiftSettings: strict)
}

func tests(_ name: String, of knows: [String]) -> Target {
    .testTarget(
        name: name, dependencies: (knows + ["TestSupport"]).map { .init(stringLiteral: $0) }, swiftSettings: strict)
}

let package = Package(
    name: "teller",
    products: [
        .executable(name: "teller", targets: ["teller"]),
        .executable(name: "teller-lab", targets: ["teller-lab"]),
    ],
    targets: [
        library("CUV", debian: "libuv1-dev"),
        library("CHiredis", debian: "libhiredis-dev"),
        library("CCurl", debian: "libcurl4-openssl-dev"),
        library("CMicrohttpd", debian: "libmicrohttpd-dev"),
        library("COpenSSL", debian: "libssl-dev"),
        library("CYajl", debian: "libyajl-dev"),
        library("CJemalloc", debian: "libjemalloc-dev"),

        module("ServiceRuntime", knows: ["CUV", "CYajl", "CJemalloc"]),
        module("Redis", knows: ["CHiredis", "ServiceRuntime"]),
        module("HTTP", knows: ["CCurl", "CMicrohttpd", "ServiceRuntime"]),
        module("Signing", knows: ["COpenSSL", "ServiceRuntime"]),
        module("Commerce", knows: ["ServiceRuntime"]),
        module("Jobs", knows: ["Redis", "ServiceRuntime"], resources: [.embedInCode("Scripts")]),
        module("Verification", knows: ["Commerce", "HTTP", "Signing", "ServiceRuntime"]),
        module("Ledger", knows: ["Commerce", "Redis", "ServiceRuntime"], resources: [.embedInCode("Scripts")]),
        module("ShopAPI", knows: ["Commerce", "HTTP", "Signing", "Jobs", "Ledger", "ServiceRuntime"]),
        module(
            "ReceiptWorker",
            knows: ["Commerce", "Signing", "Jobs", "Verification", "Ledger", "ServiceRuntime"]),
        module(
            "Operations",
            knows: ["Commerce", "Jobs", "Ledger", "Verification", "HTTP", "Signing", "ServiceRuntime"]),
        module("StoreEmulator", knows: ["HTTP", "Signing", "ServiceRuntime"]),
        module(
            "Lab",
            knows: [
                "StoreEmulator", "Commerce", "Redis", "HTTP", "Signing", "Jobs", "Ledger", "ServiceRuntime",
            ]),
        .executableTarget(
            name: "teller",
            dependencies: [
                "ShopAPI", "ReceiptWorker", "Operations",
                "Commerce", "Verification", "Jobs", "Ledger", "HTTP", "Redis", "ServiceRuntime",
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "teller-lab", dependencies: ["StoreEmulator", "Lab", "ServiceRuntime"], swiftSettings: strict),

        .target(
            name: "TestSupport",
            dependencies: [
                "Lab", "Commerce", "Redis", "HTTP", "Signing", "StoreEmulator", "Verification", "ServiceRuntime",
            ],
            path: "Tests/TestSupport", swiftSettings: strict),
        tests("ServiceRuntimeTests", of: ["ServiceRuntime"]),
        tests("RedisTests", of: ["Redis", "ServiceRuntime"]),
        tests("HTTPTests", of: ["HTTP", "ServiceRuntime"]),
        tests("SigningTests", of: ["Signing", "ServiceRuntime"]),
        tests("CommerceTests", of: ["Commerce", "Signing", "ServiceRuntime"]),
        tests("JobsTests", of: ["Jobs", "Redis", "ServiceRuntime"]),
        tests(
            "VerificationTests", of: ["Verification", "Commerce", "HTTP", "Signing", "StoreEmulator", "ServiceRuntime"]),
        tests("LedgerTests", of: ["Ledger", "Commerce", "Redis", "Signing", "ServiceRuntime"]),
        tests(
            "ShopAPITests", of: ["ShopAPI", "Commerce", "HTTP", "Signing", "Jobs", "Ledger", "Redis", "ServiceRuntime"]),
        tests(
            "OperationsTests",
            of: [
                "Operations", "Commerce", "HTTP", "Jobs", "Ledger", "Verification", "Signing", "Redis", "StoreEmulator",
                "Lab", "ServiceRuntime",
            ]),
        tests("StoreEmulatorTests", of: ["StoreEmulator", "HTTP", "Signing", "ServiceRuntime"]),
        tests(
            "PipelineTests",
            of: [
                "ReceiptWorker", "ShopAPI", "Verification", "Commerce", "Jobs", "Ledger", "Redis", "HTTP", "Signing",
                "StoreEmulator", "ServiceRuntime",
            ]),
        tests(
            "LabTests",
            of: [
                "Lab", "ReceiptWorker", "ShopAPI", "Verification", "Commerce", "Jobs", "Ledger", "Redis", "HTTP",
                "Signing", "StoreEmulator", "ServiceRuntime",
            ]),
        tests("FaultTests", of: ["Lab", "StoreEmulator", "HTTP", "Redis", "ServiceRuntime"]),
    ],
    swiftLanguageModes: [.v6]
)
