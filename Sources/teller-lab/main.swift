import ServiceRuntime

// `teller-lab`: everything that is not production. Each command is in a file of its name; this one only lists them.
CommandLineTool(
    "teller-lab", "puts load on Teller, with emulated stores, and proves what came of it",
    commands: [
        emulatorCommand, loadCommand, auditCommand, chaosCommand, workerBenchCommand, signatureBenchCommand,
    ]
).main()
