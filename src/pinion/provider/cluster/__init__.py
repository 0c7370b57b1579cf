"""What a site's stack keeps in its Kubernetes cluster and no general plugin keeps rightly: labels and taints of nodes, Helm releases."""
