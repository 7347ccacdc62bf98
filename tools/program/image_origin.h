/* What is known of a file of others besides its tensors: timm's name of the network, from the
 * config.json next to it or from the file's own name. */
#ifndef TOOLS_PROGRAM_IMAGE_ORIGIN_H
#define TOOLS_PROGRAM_IMAGE_ORIGIN_H

typedef struct image_origin {
  char architecture[80]; /* "tf_efficientnet_b0.ns_jft_in1k"; "": nothing says it */
  int pixels;            /* image_pixels, by the mean and deviation of config.json; -1: unknown */
} image_origin;

/* A config.json that is not of timm says nothing. */
image_origin image_origin_of(const char *path);

#endif
