/* The op `custom`: one that the caller has described (accrue/custom_op.h), or its gradient. */
#ifndef AC_OPS_CUSTOM_H
#define AC_OPS_CUSTOM_H

#include <accrue/custom_op.h>

#include "ops/arguments.h"

/* A copy of a description, which never changes. It is in a block that the graphs with the op share
 * (graph/block.h), and so is all that it points to. */
typedef struct ac_custom {
  ac_custom_desc desc;              /* `gradient` is not set */
  const struct ac_custom *gradient; /* NULL: none */
  uint64_t source_key;              /* the hash of the OpenCL source */
} ac_custom;

typedef struct ac_custom_attributes {
  ac_op_kinds kinds;
  char unused[8 - (sizeof(ac_op_kinds) + sizeof(uint32_t)) % 8]; /* so that there is no padding */
  uint32_t stream;
  const ac_custom *op;
} ac_custom_attributes;

/* Of the op that is timed (sampled.c). */
extern const ac_custom_attributes ac_custom_sampled;

/* How a backend does what an op's function asks for. */
struct ac_custom_device {
  void (*parallel)(const struct ac_custom_device *device, const ac_custom_call *call, int64_t count,
                   int64_t work, ac_custom_part part, void *context);
  void (*launch)(struct ac_custom_device *device, const ac_custom_launch_desc *desc);
  bool mark_flushed; /* ac_run_state's */
};

/* What the op's functions get. */
void ac_custom_call_of(ac_custom_call *call, const ac_op_args *args);
/* What `workspace` of the description says. */
uint64_t ac_custom_workspace(const ac_op_args *args);
/* After a function: its sentence, if it has one, as an error. */
ac_status ac_custom_result(const char *sentence);

static inline const ac_custom *ac_custom_of(const ac_op_args *args) {
  return ((const ac_custom_attributes *)args->attributes)->op;
}

#endif
