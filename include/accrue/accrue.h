/* Accrue trains neural networks inside a memory budget, on any OpenCL device or on a plain CPU. */
#ifndef ACCRUE_ACCRUE_H
#define ACCRUE_ACCRUE_H

#include <accrue/base.h>
#include <accrue/device.h>
#include <accrue/graph.h>
#include <accrue/plan.h>
#include <accrue/dataset.h>
#include <accrue/model_file.h>
#include <accrue/trainer.h>
#include <accrue/session.h>
#include <accrue/bench.h>

#endif
