/* Optimizer state in host memory. Large cells of optimizer state are on the host, and in values of
 * the arena while their parameters are stepped. If the step treats each element by itself, it is
 * cut into parts of PART elements, so that only a few megabytes are on the device at once, however
 * large the parameter is.
 *
 * State is transferred for a row of steps: all parts of one parameter's update, then those of the
 * next. They have the points p(1), p(2), ..:
 *
 *   in      s1  s2  s3  s4
 *   step        s1  s2  s3  s4          the k-th is stepped while the next comes and the last goes
 *   out             s1  s2  s3  s4
 *
 * So the value of the k-th is alive from p(k - 1), when its way in may begin, to p(k + 1), when its
 * way out has ended: steps after that point wait for it (run/transfers.c). Three are alive at
 * once. In a pass with the update among the steps of the micro-batch there are other steps between
 * these points, and their computation also hides the transfers. */
#include "plan/plan.h"

#include "core/eight_bit.h"

enum { LEAST = 4096, PART = 1 << 19 };

static int64_t elements_of(const ac_graph *graph, int parameter) {
  return ac_shape_count(&ac_tensor_at(graph, graph->parameters[parameter])->shape);
}

/* Small ones would save little, and each takes two transfers: so do most that are kept for rows and
 * columns alone. */
bool ac_transfers_tensor(const ac_graph *graph, const ac_tensor *tensor) {
  return tensor->role == AC_ROLE_STATE && ac_shape_count(&tensor->shape) >= LEAST &&
         elements_of(graph, tensor->parameter) >= LEAST;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static bool is_transferred(const ac_graph *graph, const ac_node *node) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (node->out[j] >= 0 && ac_transfers_tensor(graph, ac_tensor_at(graph, node->out[j])))
      return true;
  return false;
}

static int64_t stepped_elements(const ac_graph *graph, const ac_node *node) {
  return ac_shape_count(&ac_tensor_at(graph, node->out[0])->shape);
}

int ac_transfers_parts(const ac_graph *graph, const ac_node *node) {
  if (!is_transferred(graph, node) || !ac_op_describe(node->op)->by_element) return 1;
  return (int)((stepped_elements(graph, node) + PART - 1) / PART);
}

ac_part ac_transfers_part(const ac_graph *graph, const ac_node *node, int index, int parts) {
  if (parts == 1) return (ac_part){0, 0};
  const int64_t first = (int64_t)index * PART, rest = stepped_elements(graph, node) - first;
  return (ac_part){first, rest < PART ? rest : PART};
}

ac_part ac_transfers_range(ac_dtype dtype, ac_part part) {
  if (dtype != AC_U8) return part;
  return (ac_part){part.first / AC_EIGHT_BIT_BLOCK * AC_EIGHT_BIT_BYTES,
                   ac_eight_bit_blocks(part.count) * AC_EIGHT_BIT_BYTES};
}

/* ---- the row of steps ------------------------------------------------------------------------ */

int ac_transfers_next(const ac_sequence *sequence, int step) {
  for (int i = step + 1; i < sequence->step_count; i++)
    if (sequence->steps[i].transfers) return i;
  return -1;
}

uint64_t ac_transfers_bytes(const ac_sequence *sequence, const ac_graph *graph,
                            const ac_step *step) {
  uint64_t bytes = 0;
  for (int j = 0; j < AC_MAX_OUTPUTS && step->transfers; j++) {
    const int value = step->out[j].value;
    if (value >= 0 && ac_tensor_at(graph, step->out[j].tensor)->role == AC_ROLE_STATE)
      bytes += sequence->values[value].bytes;
  }
  return bytes;
}

/* All other values that are alive after the micro-batch stay alive to the end, because the host may
 * read them. */
void ac_transfers_set_lifetimes(ac_sequence *sequence, const ac_graph *graph) {
  const int end = ac_sequence_end(sequence), last = ac_sequence_last_point(sequence);
  for (int i = 0; i < sequence->value_count; i++)
    if (sequence->values[i].last >= end) sequence->values[i].last = last;
  int before = -1;
  for (int i = ac_transfers_next(sequence, -1); i >= 0;) {
    const int next = ac_transfers_next(sequence, i);
    const ac_step *step = &sequence->steps[i];
    for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
      if (step->out[j].value < 0) continue;
      if (ac_tensor_at(graph, step->out[j].tensor)->role != AC_ROLE_STATE) continue;
      ac_value *value = &sequence->values[step->out[j].value];
      value->first = ac_sequence_point(sequence, before < 0 ? i : before);
      value->last = ac_sequence_point(sequence, next < 0 ? i : next);
    }
    before = i;
    i = next;
  }
}
