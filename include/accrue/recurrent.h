/** @file
 * Recurrent layers over time: LSTM, GRU and the plain cell, as torch.nn.LSTM, GRU and RNN with
 * batch_first=True, with the same formulas and order of gates.
 *
 *     ac_recurrent_state last;
 *     x = ac_lstm_layer(graph, "lstm", x, 256, NULL, &last);     x [B, T, in] -> [B, T, 256]
 *
 * A long sequence is computed in parts along time, which only T decides: up to 64 positions are one
 * part, then a part has 32 positions, or 1/32 of T if that is more. States connect the parts. So a
 * plan can compute the insides of some parts again in the backward pass instead of keeping them, as
 * the budget says, with the same bits. */
#ifndef ACCRUE_RECURRENT_H
#define ACCRUE_RECURRENT_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The parameters of one direction of one layer, with G gates (LSTM 4: i, f, g, o; GRU 3: r, z, n;
 * plain 1) of H units. They are stored as PyTorch's. */
typedef struct ac_recurrent_weights {
  ac_tensor *input;       /**< f32 [G * H, in]: PyTorch's weight_ih. */
  ac_tensor *hidden;      /**< f32 [G * H, H]: weight_hh. */
  ac_tensor *input_bias;  /**< f32 [G * H], or NULL: bias_ih. */
  ac_tensor *hidden_bias; /**< f32 [G * H], or NULL: bias_hh. */
} ac_recurrent_weights;

/** States of all layers: row l * directions + d is of layer l, with the reverse direction second.
 * To carry states from window to window, watch or predict the final ones, and feed them as initial
 * ones. */
typedef struct ac_recurrent_state {
  ac_tensor *hidden; /**< f32 [B, layers * directions, H]; PyTorch has the batch second. */
  ac_tensor *cell;   /**< The same, of an LSTM only; else NULL. */
} ac_recurrent_state;

/** Which way a recurrent layer reads a sequence. */
typedef enum ac_direction {
  AC_FORWARD = 0,    /**< From the first position on. */
  AC_BACKWARD,       /**< From the last position, or that before the sample's length, on. */
  AC_BOTH_DIRECTIONS /**< Both; results lie side by side: [B, T, 2 * H], forward first. */
} ac_direction;

/** The function of a plain cell. */
typedef enum ac_rnn_function {
  AC_RNN_TANH = 0, /**< tanh. */
  AC_RNN_RELU      /**< max(0, x). */
} ac_rnn_function;

/** Settings of ac_lstm, ac_gru and ac_rnn. */
typedef struct ac_recurrent_desc {
  int layers;               /**< 0: 1. */
  ac_direction direction;   /**< Of every layer. */
  float dropout;            /**< Between layers, as ac_dropout. Not after the last one. */
  ac_rnn_function function; /**< Of ac_rnn only. */
} ac_recurrent_desc;

/** Long short-term memory: x f32 [B, T, in] -> [B, T, directions * H]. With sums of W_ih x + b_ih +
 * W_hh h + b_hh for each gate, `i`, `f` and `o` by sigmoid and `g` by tanh: c = f c + i g, h = o
 * tanh(c).
 *
 * `lengths` i32 [B] in [0, T], or NULL: a sample ends at its length. Results beyond it are 0, final
 * states are those at the length, and the reverse direction begins there (as packed sequences).
 * `initial` (NULL: zeros) and `final` (NULL: not wanted) are states; `weights` has layers *
 * directions entries, in the order of states' rows. `desc` may be NULL. */
AC_API ac_tensor *ac_lstm(ac_tensor *x, ac_tensor *lengths, const ac_recurrent_state *initial,
                          const ac_recurrent_weights *weights, const ac_recurrent_desc *desc,
                          ac_recurrent_state *final);

/** Gated recurrent units, with `r` and `z` by sigmoid: n = tanh(W_in x + b_in + r (W_hn h + b_hn)),
 * h = (1 - z) n + z h. Else as ac_lstm. */
AC_API ac_tensor *ac_gru(ac_tensor *x, ac_tensor *lengths, const ac_recurrent_state *initial,
                         const ac_recurrent_weights *weights, const ac_recurrent_desc *desc,
                         ac_recurrent_state *final);

/** Plain cells: h = tanh(W_ih x + b_ih + W_hh h + b_hh), or max(0, ...). Else as ac_lstm. */
AC_API ac_tensor *ac_rnn(ac_tensor *x, ac_tensor *lengths, const ac_recurrent_state *initial,
                         const ac_recurrent_weights *weights, const ac_recurrent_desc *desc,
                         ac_recurrent_state *final);

/* ---- layers, which make their parameters ------------------------------------------------------
 */

/** Settings of ac_lstm_layer, ac_gru_layer and ac_rnn_layer. */
typedef struct ac_recurrent_layer_desc {
  ac_recurrent_desc recurrence; /**< Layers, direction, dropout, function. */
  ac_tensor *lengths;           /**< As of ac_lstm; may be NULL. */
  ac_recurrent_state initial;   /**< Its tensors may be NULL: zeros. */
  bool no_bias;                 /**< There are no biases. */
  bool frozen;                  /**< Its parameters are not trained. */
  ac_init weight;               /**< Of weights; zeros: uniform in +-1 / sqrt(units). */
  ac_init bias;                 /**< Of biases; zeros: as weights. */
} ac_recurrent_layer_desc;

/** ac_lstm of x [B, T, in] with the parameters NAME.weight_ih_l0, weight_hh_l0, bias_ih_l0 and
 * bias_hh_l0, with l1, ... of further layers, and the suffix _reverse of the reverse direction: as
 * torch.nn.LSTM names, stores and initialises them. `desc` and `final` may be NULL. */
AC_API ac_tensor *ac_lstm_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t units,
                                const ac_recurrent_layer_desc *desc, ac_recurrent_state *final);

/** ac_gru with parameters named as those of ac_lstm_layer. */
AC_API ac_tensor *ac_gru_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t units,
                               const ac_recurrent_layer_desc *desc, ac_recurrent_state *final);

/** ac_rnn with parameters named as those of ac_lstm_layer. */
AC_API ac_tensor *ac_rnn_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t units,
                               const ac_recurrent_layer_desc *desc, ac_recurrent_state *final);

#ifdef __cplusplus
}
#endif

#endif
