/* Accrue trains neural networks inside a memory budget, on any OpenCL device or on a plain CPU.
 *
 * Versions below 1.0: a new minor version (0.2) may break programs, and CHANGELOG.md names each
 * break; a patch (0.1.1) breaks none. The exception is what says "May still change.": a function,
 * type or field whose comment ends so, or a whole header whose first comment does. It is recent, or
 * shows how things are made inside, and any version may change or drop it. */
#ifndef ACCRUE_ACCRUE_H
#define ACCRUE_ACCRUE_H

#include <accrue/base.h>
#include <accrue/batches.h>
#include <accrue/device.h>
#include <accrue/graph.h>
#include <accrue/plan.h>
#include <accrue/format.h>
#include <accrue/dataset.h>
#include <accrue/model_file.h>
#include <accrue/schedule.h>
#include <accrue/watch.h>
#include <accrue/trainer.h>
#include <accrue/session.h>
#include <accrue/bench.h>

#endif
