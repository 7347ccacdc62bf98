/** @file
 * Accrue trains neural networks inside a memory budget, on any OpenCL device or on a plain CPU.
 * This header includes all others.
 *
 * Versions below 1.0: a new minor version (0.2) may break programs. CHANGELOG.md names each break.
 * A patch (0.1.1) breaks none. There is one exception: what is under the heading «may still
 * change», at the end of a header or at the end of a type. It is recent, or it shows how things are
 * made inside. Any version may change or remove it. A program that defines AC_STABLE_ONLY before it
 * includes a header cannot use it: that is an error when it is compiled. See
 * docs/reference/compatibility.md. */
#ifndef ACCRUE_ACCRUE_H
#define ACCRUE_ACCRUE_H

#include <accrue/base.h>
#include <accrue/device.h>
#include <accrue/graph.h>
#include <accrue/convolution.h>
#include <accrue/image.h>
#include <accrue/metric.h>
#include <accrue/loss.h>
#include <accrue/movement.h>
#include <accrue/norm.h>
#include <accrue/pointwise.h>
#include <accrue/layers.h>
#include <accrue/adapter.h>
#include <accrue/attention.h>
#include <accrue/custom_op.h>
#include <accrue/recurrent.h>
#include <accrue/reduction.h>
#include <accrue/storage.h>
#include <accrue/tokenizer.h>
#include <accrue/clipping.h>
#include <accrue/optimizer.h>
#include <accrue/plan.h>
#include <accrue/format.h>
#include <accrue/dataset.h>
#include <accrue/pictures.h>
#include <accrue/masks.h>
#include <accrue/chat.h>
#include <accrue/model_file.h>
#include <accrue/gguf.h>
#include <accrue/schedule.h>
#include <accrue/batches.h>
#include <accrue/loss_scaling.h>
#include <accrue/parameter_group.h>
#include <accrue/spike.h>
#include <accrue/ranks.h>
#include <accrue/trainer.h>
#include <accrue/learner.h>
#include <accrue/window.h>
#include <accrue/parameter.h>
#include <accrue/watch.h>
#include <accrue/evaluation.h>
#include <accrue/results.h>
#include <accrue/fit.h>
#include <accrue/state_file.h>
#include <accrue/range_test.h>
#include <accrue/session.h>
#include <accrue/generate.h>
#include <accrue/model.h>
#include <accrue/export.h>
#include <accrue/bench.h>

#endif
