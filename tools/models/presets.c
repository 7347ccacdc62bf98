#include "models/presets.h"

#include <string.h>

enum { GPT2_VOCAB = 50257, GPT2_CONTEXT = 1024 };

/* Images of CIFAR-10, and of MNIST. */
#define COLOUR .channels = 3, .height = 32, .width = 32, .classes = 10
#define DIGITS .channels = 1, .height = 28, .width = 28, .classes = 10
/* Images of ImageNet, as they are cut out for training, and how their pixels are normalised. */
#define IMAGENET \
  .channels = 3, .height = 224, .width = 224, .classes = 1000, .pixels = IMAGE_PIXELS_IMAGENET
#define RESNET(layers) \
  .net = {IMAGENET, .depth = layers, .base = 64, .stem = IMAGE_STEM_LARGE, .norm = IMAGE_NORM_BATCH}
#define VIT(size) .net = {IMAGENET, .depth = 12, .base = size, .heads = size / 64, .patch = 16}

const model_preset model_presets[] = {
    /* Radford et al. 2019, table 2; the numbers of weights are those of the published files. */
    {"gpt2-124m", "gpt", .gpt = {12, 12, 768, GPT2_CONTEXT, GPT2_VOCAB, 0}},
    {"gpt2-355m", "gpt", .gpt = {24, 16, 1024, GPT2_CONTEXT, GPT2_VOCAB, 0}},
    {"gpt2-774m", "gpt", .gpt = {36, 20, 1280, GPT2_CONTEXT, GPT2_VOCAB, 0}},
    {"gpt2-1.5b", "gpt", .gpt = {48, 25, 1600, GPT2_CONTEXT, GPT2_VOCAB, 0}},
    /* nanoGPT's for small CPUs, and one for trying out. */
    {"gpt-small", "gpt", .gpt = {4, 4, 128, 64, PRESET_BYTE_VOCAB, 0}},
    {"gpt-tiny", "gpt", .gpt = {2, 2, 64, 32, PRESET_BYTE_VOCAB, 0}},
    /* He et al. 2015, table 1, on small images; and section 4.2. */
    {"resnet18", "resnet", .net = {COLOUR, .depth = 18, .base = 64}},
    {"resnet34", "resnet", .net = {COLOUR, .depth = 34, .base = 64}},
    {"resnet20", "resnet", .net = {COLOUR, .depth = 20, .base = 16}},
    {"resnet56", "resnet", .net = {COLOUR, .depth = 56, .base = 16}},
    {"resnet110", "resnet", .net = {COLOUR, .depth = 110, .base = 16}},
    {"mobilenet", "mobilenet", .net = {COLOUR, .depth = 6, .base = 24}},
    /* He et al. 2015, table 1, as published for ImageNet. */
    {"resnet18-imagenet", "resnet", RESNET(18)},
    {"resnet34-imagenet", "resnet", RESNET(34)},
    {"resnet50", "resnet", RESNET(50)},
    {"resnet101", "resnet", RESNET(101)},
    {"resnet152", "resnet", RESNET(152)},
    {"mobilenet-v2", "mobilenet",
     .net = {IMAGENET, .base = 32, .variant = IMAGE_MOBILENET_V2, .norm = IMAGE_NORM_BATCH}},
    {"mobilenet-v3-small", "mobilenet",
     .net = {IMAGENET, .base = 16, .variant = IMAGE_MOBILENET_V3_SMALL, .norm = IMAGE_NORM_BATCH}},
    {"mobilenet-v3-large", "mobilenet",
     .net = {IMAGENET, .base = 16, .variant = IMAGE_MOBILENET_V3_LARGE, .norm = IMAGE_NORM_BATCH}},
    {"efficientnet-lite0", "efficientnet", .net = {IMAGENET, .base = 32}},
    {"efficientnet-b0", "efficientnet",
     .net = {IMAGENET, .base = 32, .variant = IMAGE_EFFICIENTNET_B0}},
    {"vit-tiny", "vit", VIT(192)},
    {"vit-small", "vit", VIT(384)},
    {"vit-base", "vit", VIT(768)},
    {"convnext-tiny", "convnext", .net = {IMAGENET, .depth = 9, .base = 96}},
    {"convnext-small", "convnext", .net = {IMAGENET, .depth = 27, .base = 96}},
    /* Ronneberger et al. 2015, with padding: 64 to 1024 channels. */
    {"unet", "unet",
     .net = {.channels = 3, .height = 256, .width = 256, .classes = 2, .depth = 4, .base = 64}},
    /* LeCun et al. 1998, section III.C. */
    {"lenet-300-100", "mlp", .net = {DIGITS}, .hidden = "300,100"},
};
const int model_preset_count = sizeof model_presets / sizeof *model_presets;

const model_preset *model_preset_find(const char *name) {
  for (int i = 0; i < model_preset_count; i++)
    if (!strcmp(model_presets[i].name, name)) return &model_presets[i];
  return NULL;
}
