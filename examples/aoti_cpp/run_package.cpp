// Runs an AOTInductor package whose model uses convt3d's operators, in a process without Python:
//
//     run_package CONVT3D_LIBRARY PACKAGE DEVICE INPUT OUTPUT
//
// INPUT is a tensor saved by torch.save, OUTPUT can be read by torch.load.

#include <dlfcn.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

namespace {

// The library registers torch.ops.convt3d.* while it is loaded; it stays until the process ends, as they do.
void load_operators(const std::string& library) {
  if (dlopen(library.c_str(), RTLD_NOW) == nullptr) {
    throw std::runtime_error(std::string("cannot load convt3d's library: ") + dlerror());
  }
}

at::Tensor read_tensor(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return torch::jit::pickle_load(bytes).toTensor();
}

void write_tensor(const std::string& path, const at::Tensor& tensor) {
  const std::vector<char> bytes = torch::jit::pickle_save(tensor);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path);
  }
}

void run(const std::string& library, const std::string& package, const c10::Device& device, const std::string& input,
         const std::string& output) {
  load_operators(library);
  const c10::InferenceMode no_gradients;
  torch::inductor::AOTIModelPackageLoader model(package);
  const std::vector<at::Tensor> outputs = model.run({read_tensor(input).to(device)});
  write_tensor(output, outputs.at(0).cpu());
  std::cout << "output " << outputs.at(0).sizes() << " on " << outputs.at(0).device() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: run_package CONVT3D_LIBRARY PACKAGE DEVICE INPUT OUTPUT\n";
    return 2;
  }
  try {
    run(argv[1], argv[2], c10::Device(argv[3]), argv[4], argv[5]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
