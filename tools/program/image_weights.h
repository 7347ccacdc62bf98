/* Weights of image models that other programs have written: what they are is told by the names and
 * shapes of their tensors. */
#ifndef TOOLS_PROGRAM_IMAGE_WEIGHTS_H
#define TOOLS_PROGRAM_IMAGE_WEIGHTS_H

#include "models/image_net.h"

#include <accrue/accrue.h>

typedef struct image_family {
  const char *name;
  void (*build)(ac_graph *graph, const image_net *net);
  const char *(*head)(const image_net *net);
  /* Sets the shape by a file that has no description of Accrue. NULL: done; else what it lacks. */
  const char *(*recognise)(image_net *net, const ac_model_file *file);
} image_family;

extern const image_family resnet_family, mobilenet_family, efficientnet_family, vit_family,
    convnext_family, unet_family;

/* Sets the shape and the number of classes, and how pixels were normalised as far as names and a
 * config.json tell it. *guessed: timm has two networks with these tensors, and nothing says which
 * one it is. A status of message.h. */
int image_weights_adopt(const image_family *family, image_net *net, const ac_model_file *file,
                        const char *path, bool *guessed);

/* Refuses a file with a tensor that `in`, a trainer or plan, has no parameter for: leaving it out
 * would make another model of it. */
int image_weights_check(const image_family *family, bool (*has)(const void *in, const char *name),
                        const void *in, const char *path);

#endif
