// A stand-in for NVML as libnvidia-ml.so.1, of one GPU at 0000:10:00.0, whose values a test sets. It knows NVML's documentation:
// enumerators and units as nvml.h has them, errors where a call comes before nvmlInit or asks for what there is not.
#pragma once

namespace fake_nvml {

struct Values {
  unsigned clock_mhz = 1980, power_mw = 500000, celsius = 60;
  unsigned long long reasons = 0;    // nvmlClocksEventReason* bits
  bool tells_temperature = true;     // else NVML_ERROR_NOT_SUPPORTED
  unsigned long long energy_mj = 0;  // since the driver was loaded
  bool tells_energy = true;
  unsigned long long ecc_corrected = 0, ecc_uncorrected = 0;
  unsigned remapped = 0, remap_pending = 0, remap_failed = 0;
  unsigned pcie_width = 16, pcie_replays = 0, links_up = 0;
  unsigned long long link_errors = 0;  // of each counter of each link that is up
  unsigned long long next_xid = 0;     // that an event set which is registered has next; 0: none
  bool tells_faults = true;            // else NVML_ERROR_NOT_SUPPORTED
  int event_sets = 0;                  // open ones
  int sessions = 0;                    // open ones
};

}  // namespace fake_nvml

// By which a test finds them in the library that it has opened.
extern "C" fake_nvml::Values* fake_nvml_values();
