/* For the builder of recurrent layers (time.c). */
#ifndef AC_OPS_RECURRENT_BUILD_H
#define AC_OPS_RECURRENT_BUILD_H

#include "graph/builder.h"
#include "ops/recurrent/recurrent.h"

/* Positions of one direction of a layer. Returns y, and the state after them; NULL with the failure
 * recorded, also if gates are NULL. b, state and lengths may be NULL. */
ac_tensor *ac_recurrent_emit(ac_graph *graph, const ac_recurrent_attributes *attributes,
                             ac_tensor *gates, ac_tensor *w, ac_tensor *b, ac_tensor *state,
                             ac_tensor *lengths, ac_tensor **final);

#endif
