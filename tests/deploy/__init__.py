"""What is in deploy/ for Kubernetes: a Helm chart and an example of a sidecar."""
