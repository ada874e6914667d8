#pragma once
#include <uv.h>

// The hook of the Swift concurrency runtime through which it hands over jobs for the global executor
// (swift/Runtime/Concurrency.h). Weak: a runtime without it is only slower. Named here and not looked up with dlsym,
// which finds nothing in a program that is linked statically.
typedef __attribute__((swiftcall)) void (*teller_global_enqueue)(void *job, void *original);
extern teller_global_enqueue swift_task_enqueueGlobal_hook __attribute__((weak));

/// Has the runtime call `taker` for each job that it would run on its global pool; once, before there are threads.
/// C's and Swift's calling conventions agree for two pointers.
static inline void teller_take_global_jobs(void (*taker)(void *job, void *original)) {
    if (&swift_task_enqueueGlobal_hook != 0) swift_task_enqueueGlobal_hook = (teller_global_enqueue)taker;
}
