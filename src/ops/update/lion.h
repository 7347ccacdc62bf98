#ifndef AC_OPS_LION_H
#define AC_OPS_LION_H

/* Lion (Chen and others, arXiv 2302.06675), with g' = gradient_factor * g:
 *   p -= rate * weight_decay * p;  p -= rate * sign(beta1 m + take1 g')
 *   m += take2 (g' - m)
 * where sign(0) = 0, and take = 1 - beta, computed in double. */
typedef struct ac_lion_attributes {
  float gradient_factor; /* unscale, clip and divide in one */
  float rate, weight_decay;
  float beta1, take1, take2;
} ac_lion_attributes;

#endif
