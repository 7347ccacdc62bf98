#ifndef AC_OPS_SIGNUM_H
#define AC_OPS_SIGNUM_H

/* Signum (Bernstein and others, arXiv 1802.04434), with g' = gradient_factor * g:
 *   m += take (g' - m);  p -= rate * weight_decay * p;  p -= rate * sign(m)
 * where sign(0) = 0, and take = 1 - momentum, computed in double. */
typedef struct ac_signum_attributes {
  float gradient_factor; /* unscale, clip and divide in one */
  float rate, weight_decay, take;
} ac_signum_attributes;

#endif
