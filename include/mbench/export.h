// What a user of the library may call: the rest of it stays hidden in the shared library.
#pragma once

#define MBENCH_EXPORT __attribute__((visibility("default")))
