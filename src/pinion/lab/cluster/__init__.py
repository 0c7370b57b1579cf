"""The lab's Kubernetes: a real control plane on the management host, real kubelets in the GPU servers and Pis, one network of pods."""
