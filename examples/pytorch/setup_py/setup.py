"""The setup.py way: `pip install --no-build-isolation .` compiles once, and makes a package that can be
sent to others as a wheel."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="my_ops",
    version="0.1",
    package_dir={"": "src"},  # not beside run.py, where Python would find it without its library
    packages=["my_ops"],
    ext_modules=[
        # It calls none of Python's C functions: one wheel is for all versions of Python.
        CUDAExtension("my_ops._C", ["add.cu", "softmax.cu"], py_limited_api=True,
                      extra_compile_args={"nvcc": ["-O3"]}),
    ],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    install_requires=["torch>=2.10"],
)  # fmt: skip
