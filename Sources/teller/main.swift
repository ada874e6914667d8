import ServiceRuntime

// `teller`: the production program. Each command is in a file of its name; this one only lists them.
CommandLineTool(
    "teller", "credits in-app purchases exactly once",
    commands: [
        initCommand, apiCommand, workerCommand, statusCommand, deadListCommand, deadShowCommand, deadReplayCommand,
        deadDropCommand, verifyCommand, configCheckCommand, versionCommand,
    ]
).main()
